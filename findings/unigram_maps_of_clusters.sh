#!/usr/bin/env bash
# tokenizers applies SentencePiece's map of characters to whole clusters, and drops what SentencePiece keeps.
#
# Libraries   tokenizers 0.23.3 (`normalizers.Precompiled`) and sentencepiece 0.2.3, both with the map "nmt_nfkc" that
#             sentencepiece writes into its models by default.
# Behaviour   "①" with an accent becomes "1" in tokenizers, without the accent; so do "½" and the ligature "ﬁ".
#             Halfwidth katakana "ｶﾞ" stays two characters, and SentencePiece makes one, "ガ", of it. "é" from two
#             characters is alike in both; with one accent more, tokenizers drops that.
# A guess     The same compiled map gives the same text in both, since it is the model's own file.
# Why wrong   tokenizers takes each cluster of less than six bytes, and replaces all of it by what the shortest mapped
#             beginning becomes; longer clusters go character by character. SentencePiece replaces the longest mapped
#             text at each place, whatever the clusters. A model trained with the one has other ids with the other.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet tokenizers==0.23.3 sentencepiece==0.2.3 protobuf
cd "$folder"
"$folder/env/bin/python" - <<'PY' >seen.txt
import io

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import normalizers

written = io.BytesIO()
sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(["a good film", "a bad film", "the good films"]),
    model_writer=written,
    vocab_size=18,
    normalization_rule_name="nmt_nfkc",
    minloglevel=2,
)
model = sentencepiece_model_pb2.ModelProto.FromString(written.getvalue())
theirs = normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap).normalize_str
blanks = dict.fromkeys(("add_dummy_prefix", "escape_whitespaces", "remove_extra_whitespaces"), False)
own = sentencepiece.SentencePieceNormalizer(rule_name="nmt_nfkc", **blanks).normalize
for text in ("\u2460\u0301", "\u00bd\u0301", "\ufb01\u0301", "\uff76\uff9e", "e\u0301", "e\u0301\u0302"):
    print(f"{ascii(text):20} tokenizers {ascii(theirs(text)):20} sentencepiece {ascii(own(text))}")
PY
cat seen.txt
diff seen.txt - <<'SEEN' && echo "As found."
'\u2460\u0301'       tokenizers '1'                  sentencepiece '1\u0301'
'\xbd\u0301'         tokenizers '1\u20442'           sentencepiece '1\u20442\u0301'
'\ufb01\u0301'       tokenizers 'fi'                 sentencepiece 'fi\u0301'
'\uff76\uff9e'       tokenizers '\u30ab\u3099'       sentencepiece '\u30ac'
'e\u0301'            tokenizers '\xe9'               sentencepiece '\xe9'
'e\u0301\u0302'      tokenizers '\xe9'               sentencepiece '\xe9\u0302'
SEEN
