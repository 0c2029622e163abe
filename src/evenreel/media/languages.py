"""Language tags as streams, subtitles and file names write them, in one form."""

from __future__ import annotations

import re

# ISO 639-1 with the codes of three letters of ISO 639-2, one or two, that stand for the same language.
_CODES = """
aa:aar ab:abk ae:ave af:afr ak:aka am:amh an:arg ar:ara as:asm av:ava ay:aym az:aze ba:bak be:bel bg:bul bi:bis bm:bam
bn:ben bo:bod:tib br:bre bs:bos ca:cat ce:che ch:cha co:cos cr:cre cs:ces:cze cu:chu cv:chv cy:cym:wel da:dan de:deu:ger
dv:div dz:dzo ee:ewe el:ell:gre en:eng eo:epo es:spa et:est eu:eus:baq fa:fas:per ff:ful fi:fin fj:fij fo:fao fr:fra:fre
fy:fry ga:gle gd:gla gl:glg gn:grn gu:guj gv:glv ha:hau he:heb:iw hi:hin ho:hmo hr:hrv ht:hat hu:hun hy:hye:arm hz:her
ia:ina id:ind:in ie:ile ig:ibo ii:iii ik:ipk io:ido is:isl:ice it:ita iu:iku ja:jpn jv:jav ka:kat:geo kg:kon ki:kik
kj:kua kk:kaz kl:kal km:khm kn:kan ko:kor kr:kau ks:kas ku:kur kv:kom kw:cor ky:kir la:lat lb:ltz lg:lug li:lim ln:lin
lo:lao lt:lit lu:lub lv:lav mg:mlg mh:mah mi:mri:mao mk:mkd:mac ml:mal mn:mon mr:mar ms:msa:may mt:mlt my:mya:bur na:nau
nb:nob nd:nde ne:nep ng:ndo nl:nld:dut nn:nno no:nor nr:nbl nv:nav ny:nya oc:oci oj:oji om:orm or:ori os:oss pa:pan
pi:pli pl:pol ps:pus pt:por qu:que rm:roh rn:run ro:ron:rum:mo ru:rus rw:kin sa:san sc:srd sd:snd se:sme sg:sag si:sin
sk:slk:slo sl:slv sm:smo sn:sna so:som sq:sqi:alb sr:srp ss:ssw st:sot su:sun sv:swe sw:swa ta:tam te:tel tg:tgk th:tha
ti:tir tk:tuk tn:tsn to:ton tr:tur ts:tso tt:tat tw:twi ty:tah ug:uig uk:ukr ur:urd uz:uzb ve:ven vi:vie vo:vol wa:wln
wo:wol xh:xho yi:yid:ji yo:yor za:zha zh:zho:chi:cmn zu:zul
apc ary arz ast bal bho ceb chr ckb fil:tl:tgl fur gan gsw hak haw hil hmn ilo jam jbo kmr kok lmo mai mni nan nap new
pap pms rom sat scn syc szl tet tpi vec war wuu yue
"""
_LANGUAGES = {code: codes[0] for codes in (line.split(":") for line in _CODES.split()) for code in codes}
_SCRIPTS = """
arab armn beng cyrl deva ethi geor grek gujr guru hang hans hant hebr jpan khmr knda kore laoo latn mlym mong mymr orya
sinh taml telu thaa thai tibt
"""
_TAG = re.compile(r"([a-z]{2,3})(?:-([a-z]{4}))?(?:-([a-z]{2}|\d{3}))?(-valencia)?")


def language_tag(written: str | None) -> str | None:
    """Return a language as a BCP 47 tag: `eng` and `en` become `en`, `pt_br` becomes `pt-BR`, `chi` becomes `zh`."""
    found = _TAG.fullmatch((written or "").strip().replace("_", "-").lower())
    if found is None or found[1] not in _LANGUAGES or (found[2] and found[2] not in _SCRIPTS.split()):
        return None
    parts = (_LANGUAGES[found[1]], (found[2] or "").title(), (found[3] or "").upper())
    return "-".join(filter(None, parts)) + (found[4] or "")


def same_language(one: str | None, other: str | None) -> bool:
    """Return whether two BCP 47 tags are of one language, wherever it is spoken; False where one is not known."""
    return one is not None and other is not None and one.partition("-")[0] == other.partition("-")[0]
