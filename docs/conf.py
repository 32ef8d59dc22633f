"""The settings of the documentation site; CONTRIBUTING.md has the command that builds it.

The source is the whole repository, so a link from page to page is the same here and on GitHub.
"""

import inspect
import re

from sphinx.util.inspect import stringify_signature

from keras_selfattn import __version__

project = "keras-selfattn"
release = __version__
html_title = f"{project} {release}"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "deploy/README.md",
    "docs/**",
    "benchmarks/*.md",
]
exclude_patterns = [".*", "site"]
myst_heading_anchors = 4  # the anchors of GitHub

# Steps of training, saving and LoRA, which other modules of this project call.
_STEPS = """alternatives attended baselines beside_wide bounds_cache call_tokens check_lora check_memory
compile_again compile_from_config compute_mask config_type create_metrics default_optimizer from_config
get_compile_config given_memory head hidden_batches keys_and_values learning_rates lora_parts memory_pairs
model_type new_cache pairs parts_beside predict_batches queries reach relative_projection sees_distance
slides start_lora starting_point step_span step_tokens stride tuned_config_type"""
autodoc_default_options = {
    "members": True,
    "inherited-members": True,
    "exclude-members": ",".join(_STEPS.split()),
}
autodoc_inherit_docstrings = False  # Keras' own are about Keras
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_type_aliases = {name: name for name in ("Inputs", "Row", "Features", "MultiResult")}
autodoc_typehints_format = "short"
toc_object_entries_show_parents = "hide"
default_role = "py:obj"  # a name in backquotes is a link if it is a public one
maximum_signature_line_length = 88
napoleon_custom_sections = [("Call arguments", "params_style")]
napoleon_use_param = False
napoleon_use_rtype = False

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["first"]  # the site's first page leads to root_doc
html_copy_source = False
html_show_copyright = False


def is_of_others(app, what, name, member, skip, options):
    """Leave out what a class inherits from Keras, scikit-learn or Python, and fields that say nothing."""
    if (member.__doc__ or "").startswith("Alias for field number"):
        return True
    function = getattr(member, "fget", member)
    module = getattr(getattr(function, "__objclass__", function), "__module__", "keras_selfattn")
    return None if (module or "builtins").startswith("keras_selfattn") else True


def show_arguments(app, what, name, member, options, signature, returns):
    """Show the arguments of `__init__`; Keras' layers and models have a `__new__` that takes any."""
    if what not in ("class", "exception") or not inspect.isfunction(member.__init__):
        return None
    arguments = list(inspect.signature(member.__init__).parameters.values())[1:]
    shown = stringify_signature(inspect.Signature(arguments), unqualified_typehints=True)
    return shown.replace("<factory>", "..."), None


def adapt_docstring(app, what, name, member, options, lines):
    """Join the names of several arguments in one line, and mark an example without a prompt as code."""
    text = re.sub(r"(?m)^( +(?:\w+, )*\w+,)\n +", r"\1 ", "\n".join(lines))
    if ">>>" not in text:
        text = re.sub(r"(?m)^( *)Example:$", r"\1Example::\n", text)
    lines[:] = text.split("\n")


def setup(app):
    """Connect the functions above."""
    app.connect("autodoc-skip-member", is_of_others)
    app.connect("autodoc-process-signature", show_arguments)
    app.connect("autodoc-process-docstring", adapt_docstring, priority=400)
