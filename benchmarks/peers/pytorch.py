"""PyTorch's encoder layer in several forms; the fastest form is measured.

Axes: B (batch), T (positions), S (keys), H (heads), D (features of a head).
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.case import EPSILON, FEED_FORWARD, Array, Case
from benchmarks.prepared import Prepared, along

Form = Callable[[Any, Any], Any]
_NORMS = {"norm1": "attention", "norm2": "feed_forward"}


def build(fields: dict[str, Any]) -> Prepared:
    """Build all forms, run each twice and keep the fastest.

    The field `device` is "cpu", the default, or "accelerator": PyTorch's, if it finds any.
    """
    import torch  # pyright: ignore[reportMissingImports]

    case = Case.from_json(fields)
    device = _device(fields.get("device", "cpu"))
    torch.set_float32_matmul_precision("high" if case.precision == "tensorfloat32" else "highest")
    dtype = torch.bfloat16 if case.dtype == "bfloat16" else torch.float32
    encoder = _encoder(case).to(device, dtype)
    x, mask, cotangent = (torch.from_numpy(each).to(device) for each in (*case.inputs(), case.cotangent()))
    x, cotangent = x.to(dtype), cotangent.to(dtype)
    forms, failed = (_training_forms if case.training else _inference_forms)(case, encoder)

    def call(form: Form, last: int | None = None) -> Any:
        part = slice(None) if last is None else (slice(1), slice(last))
        if case.training:
            found = _gradients(encoder, form, x[part], mask[part], cotangent[part])
        else:
            with torch.inference_mode():
                found = form(x[part], mask[part])
        if device.type == "cuda":
            torch.cuda.synchronize()
        return found

    best, reasons = _fastest(forms, call, device)
    notes = [*failed, *reasons]
    return Prepared(
        run=lambda: call(forms[best]),
        warm=lambda: call(forms[best], 8),
        outputs=lambda: _outputs(encoder, forms, best, case, x, mask),
        slope=(lambda: _slope(case.small(), encoder)) if case.training else None,
        form="; ".join([best, *notes, *_named(device)]),
    )


def build_eager(fields: dict[str, Any]) -> Prepared:
    """Build the stock layer without trying other forms: memory is measured in a process that ran nothing."""
    import torch  # pyright: ignore[reportMissingImports]

    case = Case.from_json(fields)
    encoder = _encoder(case)
    x, mask = (torch.from_numpy(array) for array in case.inputs())
    cotangent = torch.from_numpy(case.cotangent())

    def call(samples: int, tokens: int) -> Any:
        part = (slice(samples), slice(tokens))
        if case.training:
            encoder.train()
            return _gradients(encoder, _stock(encoder), x[part], mask[part], cotangent[part])
        with torch.inference_mode():
            return _stock(encoder)(x[part], mask[part])

    return Prepared(run=lambda: call(*mask.shape), warm=lambda: call(1, 8), form="nn.TransformerEncoder")


def _device(wanted: str) -> Any:
    import torch  # pyright: ignore[reportMissingImports]

    return torch.device("cuda" if wanted == "accelerator" and torch.cuda.is_available() else "cpu")


def _named(device: Any) -> list[str]:
    import torch  # pyright: ignore[reportMissingImports]

    return [f"on {torch.cuda.get_device_name(device)}"] if device.type == "cuda" else []


def _encoder(case: Case) -> Any:
    """Return `nn.TransformerEncoder` with the case's weights, in evaluation mode."""
    from torch import nn, tensor  # pyright: ignore[reportMissingImports]

    layer = nn.TransformerEncoderLayer(
        case.width,
        case.heads,
        FEED_FORWARD * case.width,
        case.dropout,
        case.activation,
        EPSILON,
        batch_first=True,
    )
    encoder = nn.TransformerEncoder(layer, case.layers, enable_nested_tensor=True)
    blocks: Any = encoder.layers
    for block, weights in zip(blocks, case.weights(), strict=True):
        block.load_state_dict({name: tensor(array) for name, array in _state(weights).items()})
        block.dropout.p = 0.0  # the hidden layer's dropout, which KerasHub's blocks and ours lack
    return encoder.eval()


def _state(block: dict[str, Array]) -> dict[str, Array]:
    parts = ("query", "key", "value")
    found = {
        "self_attn.in_proj_weight": np.concatenate([block[f"{part}_kernel"].T for part in parts]),
        "self_attn.in_proj_bias": np.concatenate([block[f"{part}_bias"] for part in parts]),
    }
    for theirs, name in (("self_attn.out_proj", "context"), ("linear1", "hidden"), ("linear2", "back")):
        found |= {f"{theirs}.weight": block[f"{name}_kernel"].T, f"{theirs}.bias": block[f"{name}_bias"]}
    for theirs, name in _NORMS.items():
        found |= {f"{theirs}.weight": block[f"{name}_gamma"], f"{theirs}.bias": block[f"{name}_beta"]}
    return found


def _stock(encoder: Any, fast: bool = True) -> Form:
    """`nn.TransformerEncoder`'s own call, with or without its nested-tensor path at inference."""
    import torch  # pyright: ignore[reportMissingImports]

    def form(x: Any, mask: Any) -> Any:
        torch.backends.mha.set_fastpath_enabled(fast)
        return encoder(x, src_key_padding_mask=~mask)

    return form


def _scaled_dot_product(case: Case, encoder: Any, as_bias: bool) -> Form:
    """The same block around `scaled_dot_product_attention`; the mask is bool or a bias of 0 and -inf."""
    from torch.nn import functional  # pyright: ignore[reportMissingImports]

    def form(x: Any, mask: Any) -> Any:
        allowed = mask[:, None, None, :]  # [B, 1, 1, S]
        if as_bias:
            allowed = x.new_zeros(allowed.shape).masked_fill_(~allowed, float("-inf"))
        for block in encoder.layers:
            own = block.self_attn
            joined = functional.linear(x, own.in_proj_weight, own.in_proj_bias)
            heads = joined.unflatten(-1, (3, case.heads, -1)).permute(2, 0, 3, 1, 4)  # [3, B, H, T, D]
            rate = case.dropout if block.training else 0.0
            context = functional.scaled_dot_product_attention(*heads.unbind(0), allowed, rate)  # [B, H, T, D]
            x = block.norm1(x + block.dropout1(own.out_proj(context.transpose(1, 2).flatten(2))))
            x = block.norm2(x + block.dropout2(block.linear2(block.activation(block.linear1(x)))))
        return x

    return form


def _inference_forms(case: Case, encoder: Any) -> tuple[dict[str, Form], list[str]]:
    forms = {
        "eager": _stock(encoder, fast=False),
        "nested": _stock(encoder),
        "SDPA, bool mask": _scaled_dot_product(case, encoder, as_bias=False),
        "SDPA, bias": _scaled_dot_product(case, encoder, as_bias=True),
    }
    return _with_compiled(forms)


def _training_forms(case: Case, encoder: Any) -> tuple[dict[str, Form], list[str]]:
    encoder.train()
    forms = {
        "eager": _stock(encoder),
        "SDPA, bool mask": _scaled_dot_product(case, encoder, as_bias=False),
        "SDPA, bias": _scaled_dot_product(case, encoder, as_bias=True),
    }
    return _with_compiled(forms)


def _with_compiled(forms: dict[str, Form]) -> tuple[dict[str, Form], list[str]]:
    import torch  # pyright: ignore[reportMissingImports]

    try:
        compiled = torch.compile(forms["SDPA, bias"], dynamic=False)
    except RuntimeError as error:  # no compiler for this system or this Python
        return forms, [f"no torch.compile: {_first_line(error)}"]
    return {**forms, "compiled": compiled}, []


def _fastest(forms: dict[str, Form], call: Callable[[Form], Any], device: Any) -> tuple[str, list[str]]:
    """Return the name of the form with the fastest call after the first, and why others could not run."""
    # The CPU's time says nothing about a GPU, and the wall's is that of a machine where others compile.
    on_cores = device.type == "cpu"
    clock, calls = (time.process_time, 1) if on_cores else (time.perf_counter, 5)
    taken: dict[str, float] = {}
    failed = []
    for name, form in forms.items():
        try:
            call(form)
        except Exception as error:  # noqa: BLE001  torch.compile alone raises a dozen kinds
            failed.append(f"no {name}: {_first_line(error)}")
            continue
        taken[name] = min(_seconds(lambda form=form: call(form), clock) for _ in range(calls))
    if not taken:
        raise RuntimeError("; ".join(failed))
    return min(taken, key=lambda name: taken[name]), failed


def _seconds(call: Callable[[], Any], clock: Callable[[], float]) -> float:
    start = clock()
    call()
    return clock() - start


def _gradients(encoder: Any, form: Form, x: Any, mask: Any, cotangent: Any) -> list[Any]:
    import torch  # pyright: ignore[reportMissingImports]

    return list(torch.autograd.grad((form(x, mask) * cotangent).sum(), list(encoder.parameters())))


def _outputs(encoder: Any, forms: dict[str, Form], best: str, case: Case, x: Any, mask: Any) -> Array:
    """Outputs of the chosen form without dropout."""
    import torch  # pyright: ignore[reportMissingImports]

    encoder.eval()
    with torch.inference_mode():
        found = forms[best](x, mask)
    encoder.train(case.training)
    padded = torch.zeros_like(x)  # the nested path returns only the length of the longest sample
    padded[:, : found.shape[1]] = found
    return padded.float().cpu().numpy()[mask.cpu().numpy()]


def _slope(case: Case, encoder: Any) -> float:
    import torch  # pyright: ignore[reportMissingImports]

    encoder.eval()
    some = next(encoder.parameters())
    x, mask, cotangent = (
        torch.from_numpy(each).to(some.device) for each in (*case.inputs(), case.cotangent())
    )
    form = _scaled_dot_product(case, encoder, as_bias=True)
    gradients = _gradients(encoder, form, x.to(some.dtype), mask, cotangent)
    encoder.train()
    names = [name.split(".", 2)[2] for name, _ in encoder.named_parameters()]
    states = [_state(block) for block in case.direction()]
    count = len(names) // len(states)
    direction = [states[index // count][name] for index, name in enumerate(names)]
    return along([gradient.float().cpu().numpy() for gradient in gradients], direction)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
