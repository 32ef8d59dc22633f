"""Files that Polars 2.1 has written, of types that it writes and few others do."""

import base64
import zlib

# Packed by zlib. A Parquet file of integers of 128 bits, which pyarrow cannot read.
INT128 = (
    "c-nnZ%}OId5Uy#5;2}s3Rx=Gb%q4^3ph>HnL=<eJxUwP6g#BT`%V=kktkIE7{Mnb-;~sp3eW85?A7iU~h6O<^==%G<`hn_54O{494QqX52mmg"
    "<ah7QWlME?Y!wOaa7y-<IC9H~FsMLh#E=Era1kU&czX)Wo3{(?hXlme9O(}<^#TC(jityM}+wuV)1kVnLI+rLp5y*RXa9~_yV*jH%&$0!&f"
    "Yk;o#x|f|x1G>OW*Si+Q5RwG%c;M!Apgy96@nKcy}bkf!;q79I184^teR!Ksu~W@zwPB$lhIA$y*OJ&K73ImCq{K1D1M5|*rq-ym8+h$vD%0"
    "Te|$9gGo{8Q@647Ob!1fk2a!72|E2}+s4yhaXTmoMKQ8cIY^dXcdOEvS>Nq#6^$py!%<onYV>{$zOnhVGV)${{dduz?Tgb%v^y`jR>Hxe!l"
    "+BWP?yuebTuidtb^l>B&!^d~FE?A8O@Hn3emc{BJMA{*rQS|cE!%0@k-D`b+nuD@O=NdBO=a3nM!GB4MMzgOhx<#PBBHPN4*|V_QU"
)
# An Arrow file of strings as views, and of an Enum, whose names are views, too.
VIEWS = (
    "c-rMuy-or_5dLmi$*C8ENO2kqN)x2O%7g|AI{XQWKZyx}Kx{~`ps?ftEPV(I3LnD4(x<SpGR9b#oZsy2k>i31#L~IU&d%@7eA&Hfqj7Xz0yK"
    "d4AP91hy~A|{t8lq$e9`XF;_?%(;yOl{^Ge@6<sG?8z9Rc%$IoJm5k5AV<spNdsVX@i%-N<4YkIV~NONB*7fR(K7z?zH>#f>h^PqKBtv72Y"
    "d$9D$T=6^XY}wRvjm<UQG&PMU>Pyu6?M|;x`9^)0GC%1}&d4${gLN~LXR^N;r=d-c!`|&sY%~SWwr{C3vVDX&rI@*4YRMFWg|dE0-m!7O8q"
    "d`R1y~&7r13lDt*j*Mk*;DkmC!Lmm$R-1gKng!$enf<bCZKVk>L3d!?QAlr<%eudGF%*o-Tl|ngicxG&N(~LP9StI4@%JUQq5&=9Qb5W!Ku"
    "g1F4<2&A-_EQR3_y+u&p39{k%kddZHf<|p<86m^vO"
)


def unpacked(path, text):
    """Write a file, and return its path."""
    path.write_bytes(zlib.decompress(base64.b85decode(text)))
    return path
