from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from huggingface_hub import constants

from evenreel import extras
from evenreel.config import DEFAULT_MODEL
from evenreel.encoders import load_encoder, loading
from evenreel.encoders.loading import BUILTIN_FOLDER, check_licence, folder_here, known_models, locate, measure_speed
from evenreel.encoders.towers import TowerEncoder
from evenreel.errors import DownloadError, EncoderError, UsageError
from evenreel.extras import Download
from evenreel.speech.recogniser import download_bytes as speech_bytes
from evenreel.types import Pixels, WindowRule
from tests.encoders.hub import COMMIT, Hub, go_online, serving
from tests.encoders.onnx_files import alone, public_export
from tests.encoders.test_open_clip import described, weighted

WANTED = {"config.json", "model.safetensors", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json"}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch) -> None:
    go_online(monkeypatch)


@pytest.fixture
def serve(clip_copy: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Hub]]:
    (clip_copy / "pytorch_model.bin").write_bytes(b"a pickle")
    (clip_copy / "modeling_evil.py").write_text("raise SystemExit")
    with serving(monkeypatch) as start:
        yield partial(start, clip_copy)


@pytest.fixture
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Note every try to connect to anywhere, the loopback included, and refuse it."""
    tries: list[object] = []

    def refuse(self: socket.socket, address: object) -> None:
        tries.append(address)
        raise OSError("no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *address, **_: refuse(None, address))  # type: ignore[arg-type]
    return tries


def in_cache(cache: Path, folder: Path, repository: str, commit: str, ref: str = "main") -> Path:
    """Lay a folder into a cache as the hub's client does."""
    home = cache / f"models--{repository.replace('/', '--')}"
    snapshot = Path(shutil.copytree(folder, home / "snapshots" / commit))
    (home / "refs").mkdir(exist_ok=True)
    (home / "refs" / ref).write_text(commit)
    return snapshot


def test_a_folder_and_a_model_in_the_cache_open_no_socket(
    checkpoints: dict[str, Path], cache: Path, online: None, no_sockets: list[object]
) -> None:
    for folder in checkpoints.values():
        load_encoder(str(folder)).encode_text(["a red ball"])
    in_cache(cache, checkpoints["clip"], "org/tiny", COMMIT)
    encoder = load_encoder("org/tiny")
    assert encoder.encoder_id == f"org/tiny@{COMMIT}"
    assert load_encoder(encoder.encoder_id).weights_hash == encoder.weights_hash
    assert no_sockets == []


@pytest.mark.parametrize("switch", ["HF_HUB_OFFLINE", "EVENREEL_OFFLINE"])
def test_offline_with_an_empty_cache_is_short_with_a_way_on(
    cache: Path, online: None, no_sockets: list[object], monkeypatch: pytest.MonkeyPatch, switch: str
) -> None:
    monkeypatch.setenv(switch, "1")
    with pytest.raises(DownloadError) as caught:
        load_encoder(DEFAULT_MODEL)
    sentence = str(caught.value)
    assert (caught.value.kind, caught.value.model) == ("offline", DEFAULT_MODEL)
    assert all(part in sentence for part in (DEFAULT_MODEL, "the cache does not have it", "add --no-vision"))
    assert len(sentence.split()) < 45
    assert no_sockets == []


def test_offline_with_a_partial_download_names_what_is_missing_which_is_fetched_online(
    checkpoints: dict[str, Path], cache: Path, monkeypatch: pytest.MonkeyPatch, serve: Callable[..., Hub]
) -> None:
    serve()
    snapshot = in_cache(cache, checkpoints["clip"], "org/tiny", COMMIT)
    (snapshot / "model.safetensors").unlink()
    with monkeypatch.context() as patch:
        patch.setenv("EVENREEL_OFFLINE", "1")
        with pytest.raises(EncoderError, match=r"the cache lacks model\.safetensors"):
            load_encoder("org/tiny")
    assert (snapshot / "config.json").is_file()
    assert load_encoder("org/tiny").dimension == 16


@pytest.mark.parametrize("stray", ["text_model.onnx", "onnx/vision_model.onnx"])
def test_a_stray_graph_makes_no_checkpoint_in_the_cache_unusable(
    checkpoints: dict[str, Path], cache: Path, monkeypatch: pytest.MonkeyPatch, stray: str
) -> None:
    snapshot = in_cache(cache, checkpoints["clip"], "org/tiny", COMMIT)
    (snapshot / "onnx").mkdir()
    (snapshot / stray).write_bytes(b"half a download")
    monkeypatch.setenv("EVENREEL_OFFLINE", "1")
    assert load_encoder("org/tiny").dimension == 16
    (snapshot / "model.safetensors").unlink()
    with pytest.raises(EncoderError, match=r"the cache lacks model\.safetensors"):
        load_encoder("org/tiny")
    monkeypatch.setattr(loading, "installed", lambda package: False)
    with pytest.raises(EncoderError, match=r"the cache lacks onnx/.*_model\.onnx"):
        load_encoder("org/tiny")


def test_without_torch_a_known_export_stands_in_for_its_checkpoint(
    checkpoints: dict[str, Path],
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    export = "onnx-community/siglip2-base-patch16-224-ONNX"
    graphs = in_cache(cache, alone(tmp_path / "graphs"), export, COMMIT)
    own = in_cache(cache, checkpoints["clip"], DEFAULT_MODEL, COMMIT)
    monkeypatch.setenv("EVENREEL_OFFLINE", "1")
    assert locate(DEFAULT_MODEL) == (f"{DEFAULT_MODEL}@{COMMIT}", own)
    monkeypatch.setattr(loading, "installed", lambda package: False)
    assert locate(DEFAULT_MODEL) == locate("default") == (f"{export}@{COMMIT}", graphs)
    assert f"the model 'default' is {DEFAULT_MODEL}" in caplog.text
    assert f"torch is not installed, so {DEFAULT_MODEL} is used in ONNX form: {export}" in caplog.text
    assert folder_here("default") == graphs
    for name, revision in ((f"{DEFAULT_MODEL}@{COMMIT}", None), (DEFAULT_MODEL, COMMIT)):
        with pytest.raises(EncoderError, match="needs torch: pip install"):  # a library's model stays the one it is
            locate(name, revision)
    shutil.copytree(tmp_path / "graphs", own, dirs_exist_ok=True)
    assert locate(DEFAULT_MODEL) == (f"{DEFAULT_MODEL}@{COMMIT}", own)


def test_a_model_is_downloaded_once_without_its_pickle_and_code(serve: Callable[..., Hub], cache: Path) -> None:
    hub = serve()
    encoder = load_encoder("org/tiny")
    assert encoder.encoder_id == f"org/tiny@{COMMIT}"
    names = sorted(path.name for path in (cache / "models--org--tiny" / "snapshots" / COMMIT).iterdir())
    settings = ["preprocessor_config.json", "tokenizer.json", "tokenizer_config.json"]
    assert names == ["config.json", "model.safetensors", *settings]
    assert not [request for request in hub.requests if request.endswith((".bin", ".py"))]
    asked = len(hub.requests)
    load_encoder("org/tiny")
    assert len(hub.requests) == asked


def test_a_model_of_open_clip_is_downloaded_with_its_own_weights_and_found_again(
    serve: Callable[..., Hub], cache: Path, clip_copy: Path
) -> None:
    for name in ("config.json", "model.safetensors", "preprocessor_config.json"):
        (clip_copy / name).unlink()
    weighted(described(clip_copy, "DFN"))
    hub = serve()
    found = locate("org/tiny")
    assert found == (f"org/tiny@{COMMIT}", cache / "models--org--tiny" / "snapshots" / COMMIT)
    names = {path.name for path in found[1].iterdir()}
    assert names == {"open_clip_config.json", "open_clip_model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    asked = len(hub.requests)
    assert locate("org/tiny") == found
    assert len(hub.requests) == asked


@pytest.mark.parametrize("with_torch", [True, False])
def test_a_model_that_the_hub_has_as_graphs_alone_is_downloaded_and_found_again(
    serve: Callable[..., Hub], cache: Path, clip_copy: Path, monkeypatch: pytest.MonkeyPatch, with_torch: bool
) -> None:
    shutil.rmtree(clip_copy)
    public_export(clip_copy)
    for other in ("onnx/text_model_quantized.onnx", "onnx/model.onnx", "pytorch_model.bin", "modeling_evil.py"):
        (clip_copy / other).write_bytes(b"not wanted")
    monkeypatch.setattr(loading, "installed", lambda package: with_torch)
    hub = serve()
    encoder = load_encoder("org/tiny")
    assert type(encoder).__name__ == "OnnxEncoder"
    assert encoder.encoder_id == f"org/tiny@{COMMIT}"
    snapshot = cache / "models--org--tiny" / "snapshots" / COMMIT
    found = {path.relative_to(snapshot).as_posix() for path in snapshot.rglob("*") if path.is_file()}
    graphs = {"onnx/text_model.onnx", "onnx/vision_model.onnx", "onnx/vision_model.onnx_data"}
    assert {path for path in found if path.startswith("onnx/")} == graphs
    assert {"config.json", "preprocessor_config.json", "tokenizer.json"} <= found
    asked = len(hub.requests)
    again = load_encoder("org/tiny")
    assert len(hub.requests) == asked
    expected = load_encoder(str(clip_copy)).encode_text(["a red star"]).sentence
    assert (again.encode_text(["a red star"]).sentence == expected).all()


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_file_that_arrives_as_another_is_neither_used_nor_kept(
    serve: Callable[..., Hub], cache: Path, name: str
) -> None:
    hub = serve(spoil=name)
    with pytest.raises(DownloadError, match=f"{name} arrived as another file") as caught:
        load_encoder("org/tiny")
    assert caught.value.kind == "checksum"
    assert not list(cache.rglob(name)) and not list(cache.rglob("*.incomplete"))
    hub.spoil = None
    assert load_encoder("org/tiny").dimension == 16


def trouble(name: str = "org/tiny") -> tuple[str, str]:
    """Why a model cannot be downloaded, and the sentences on it, which are short."""
    with pytest.raises(DownloadError) as caught:
        load_encoder(name)
    assert len(str(caught.value).split()) < 45 and "--no-vision" in str(caught.value)
    return caught.value.kind, str(caught.value)


def test_why_a_model_cannot_be_downloaded(
    serve: Callable[..., Hub], monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    hub = serve()
    for status, kind in ((401, "refused"), (403, "refused"), (404, "missing"), (500, "failed"), (503, "failed")):
        hub.refuse, hub.refuse_files = status, None
        assert trouble()[0] == kind
        hub.refuse, hub.refuse_files = None, status
        assert trouble()[0] == kind
    hub.refuse_files = None
    assert trouble("org/absent")[0] == trouble("org/tiny@nowhere")[0] == "missing"
    hub.break_after = 0
    assert trouble()[0] == "failed"
    hub.break_after = None
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=200_000))
        kind, sentence = trouble()
        assert (kind, "272 kB are needed in" in sentence, "200 kB are free" in sentence) == ("disk_full", True, True)
        assert str(cache) in sentence
    with socket.create_server(("127.0.0.1", 0)) as mute, monkeypatch.context() as patch:  # that never answers
        patch.setattr(extras, "_PATIENCE_S", 0.2)
        patch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{mute.getsockname()[1]}")
        assert trouble()[0] == "offline"
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # the discard port: nobody listens
    kind, sentence = trouble()
    assert (kind, "there is no network (127.0.0.1:9 could not be reached)" in sentence) == ("offline", True)


def test_a_download_is_told_gone_on_with_and_can_be_stopped(
    serve: Callable[..., Hub], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer breaks off: it goes on with the rest, in one run as in the next."""
    hub, told = serve(break_after=50_000), list[Download]()

    def stop(progress: Download) -> None:
        told.append(progress)
        if progress.done_bytes > 60_000:
            raise KeyboardInterrupt

    monkeypatch.setattr(extras, "_TELL_S", 0.0)
    with pytest.raises(KeyboardInterrupt):
        locate("org/tiny", told=stop)
    earlier = sum(path.stat().st_size for path in cache.rglob("blobs/*"))
    assert (
        (told[0].model, told[0].done_bytes) == ("org/tiny", 0)
        and earlier > 60_000
        and list(cache.rglob("*.incomplete"))
    )
    told.clear()
    locate("org/tiny", told=told.append)
    assert told[0].done_bytes == earlier
    whole = sum(entry["size"] for entry in hub.files("org/tiny") if entry["path"] in WANTED)
    assert told[-1].done_bytes == told[-1].total_bytes == whole
    assert [one.done_bytes for one in told] == sorted(one.done_bytes for one in told)
    size = (cache / "models--org--tiny" / "snapshots" / COMMIT / "model.safetensors").stat().st_size
    assert hub.sent["org/tiny", "model.safetensors"] <= size + 50_000  # an answer that was on its way: no file anew


def test_a_model_whose_main_branch_is_a_pickle_is_asked_for_at_the_commit_that_has_safetensors(
    serve: Callable[..., Hub],
) -> None:
    hub = serve()
    with pytest.raises(DownloadError):
        load_encoder("openai/clip-vit-base-patch32")
    commit = "c237dc49a33fc61debc9276459120b7eac67e7ef"
    assert hub.requests == [f"GET /api/models/openai/clip-vit-base-patch32/revision/{commit}"]


def test_a_revision_may_stand_in_the_name_or_beside_it_alone(checkpoints: dict[str, Path], cache: Path) -> None:
    snapshot = in_cache(cache, checkpoints["clip"], "org/tiny", COMMIT, ref="v1")
    assert locate("org/tiny@v1") == locate("org/tiny", "v1") == (f"org/tiny@{COMMIT}", snapshot)
    for name, revision in (("org/tiny@v1", "v2"), ("builtin", "v1"), (".", "v1")):
        with pytest.raises(UsageError, match="A revision"):
            locate(name, revision)


NAMELESS = "|clip|./typo|../typo|~/typo|.org/tiny|org/.tiny|org/a--b|org/tiny-|/no/such/folder|a/b/c|org/../x"
NAMELESS += "|org/tiny@../../x|https://x.org/y|org/na me|\0|~nobody/x|org/" + "x" * 100


@pytest.mark.parametrize("name", NAMELESS.split("|"))
def test_a_name_that_is_nothing_is_refused(name: str) -> None:
    with pytest.raises(EncoderError, match="is neither 'builtin', nor a folder"):
        load_encoder(name)


def test_the_package_is_imported_without_torch() -> None:
    code = "import sys, evenreel.encoders; sys.exit(bool({'torch', 'transformers', 'PIL'} & {*sys.modules}))"
    subprocess.run([sys.executable, "-c", code], check=True)


LOAD = """
import sys
from evenreel.encoders import load_encoder
for folder in sys.argv[1:]:
    encoder = load_encoder(folder)
    encoder.encode_text(["a red ball", "ball " * 500])
    encoder.truncated(["ball " * 500])
"""


@pytest.mark.slow
def test_loading_says_nothing(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    folders = []
    for family, folder in checkpoints.items():
        folders.append(str(shutil.copytree(folder, tmp_path / family)))
        config = json.loads((tmp_path / family / "config.json").read_text())
        config["text_config"]["bos_token_id"] = 10**6  # something that transformers warns of
        (tmp_path / family / "config.json").write_text(json.dumps(config))
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", LOAD, *folders], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_table_is_whole() -> None:
    table = known_models()
    ids = [model.id for model in table.models]
    assert len(set(ids)) == len(ids)
    assert {model.name for model in table.models if model.name} == set(table.names) == {"default", "fast", "best"}
    assert {figure.source for model in table.models for figure in model.figures} == set(table.sources)
    assert all(model.licence and model.kind in {"pictures", "windows", "embedder"} for model in table.models)
    assert [loading.model_id(name) for name in ("fast", "best", "org/x")] == [
        "google/siglip2-base-patch32-256", "timm/PE-Core-B-16", "org/x"
    ]  # fmt: skip


def test_how_much_is_downloaded_is_known_without_the_network(
    checkpoints: dict[str, Path], tmp_path: Path, cache: Path, no_sockets: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {DEFAULT_MODEL: 1_500_000_000, "fast": 1_500_000_000, "best": 1_600_000_000, "builtin": 0, "org/tiny": None}
    assert {name: loading.download_bytes(name) for name in sizes} == sizes
    assert (folder_here("builtin"), folder_here(str(tmp_path)), folder_here("best")) == (BUILTIN_FOLDER, tmp_path, None)
    with pytest.raises(EncoderError, match="one of the names that `evenreel models` lists"):
        folder_here("nothing")
    assert speech_bytes("small") == speech_bytes("Systran/faster-whisper-small") == 486_000_000
    assert (speech_bytes("org/tiny"), speech_bytes(None)) == (None, 0)
    monkeypatch.setattr(loading, "installed", lambda package: False)
    in_cache(cache, checkpoints["clip"], DEFAULT_MODEL, COMMIT)
    assert loading.download_bytes(DEFAULT_MODEL) == 1_500_000_000  # what is here needs torch, so its export is wanted
    in_cache(cache, alone(tmp_path / "graphs"), "onnx-community/siglip2-base-patch16-224-ONNX", COMMIT)
    assert loading.download_bytes("default") == 0
    assert no_sockets == []


def test_what_is_said_of_the_builtin_model_is_true(builtin: TowerEncoder) -> None:
    found = known_models().find("builtin")
    assert found is not None
    assert found.dimension == builtin.dimension
    size = sum(path.stat().st_size for path in BUILTIN_FOLDER.iterdir()) / 1e6
    assert found.size_mb == pytest.approx(size, abs=0.5)
    header = (BUILTIN_FOLDER / "model.safetensors").read_bytes()
    tensors = json.loads(header[8 : 8 + int.from_bytes(header[:8], "little")])
    count = sum(np.prod(tensor["shape"]) for name, tensor in tensors.items() if name != "__metadata__")
    assert found.parameters_m == pytest.approx(count / 1e6, abs=0.05)


def test_a_licence_that_forbids_commercial_use_has_to_be_accepted() -> None:
    refused = [model.id for model in known_models().models if model.non_commercial]
    assert refused
    for name in (refused[0], f"{refused[0]}@main"):
        with pytest.raises(UsageError, match=r"forbids commercial use; read it on https://.*, and give --accept-li"):
            check_licence(name, accepted=False)
        check_licence(name, accepted=True)
    for name in ("builtin", "default", "some/other", "/a/folder"):
        check_licence(name, accepted=False)


class Counted:
    """An encoder on a clock of its own: a frame takes 10 ms, a caption 2."""

    def __init__(self, window: WindowRule) -> None:
        self.window, self.now = window, 0.0

    def encode_windows(self, pixels: Pixels) -> None:
        self.now += pixels.shape[0] * pixels.shape[1] * 0.010

    def encode_text(self, captions: list[str]) -> None:
        self.now += len(captions) * 0.002


@pytest.mark.parametrize("window", [WindowRule(), WindowRule(frames=8, span_s=8.0, stride_s=4.0)])
def test_speed_is_frames_and_captions_a_second(window: WindowRule, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Counted(window)
    monkeypatch.setattr("time.perf_counter", lambda: encoder.now)
    speed = measure_speed(encoder)  # type: ignore[arg-type]
    assert (speed.frames_per_s, speed.captions_per_s) == pytest.approx((100.0, 500.0))


def test_a_name_is_understood_wherever_a_model_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []

    def fetch(repository: str, *_: object) -> Path:
        asked.append(repository)
        return tmp_path

    monkeypatch.setattr(loading, "fetch", fetch)
    with caplog.at_level("WARNING", "evenreel"):
        for name in ("fast", "best"):
            locate(name)
    assert list(dict.fromkeys(asked)) == ["google/siglip2-base-patch32-256", "timm/PE-Core-B-16"]
    assert "the model 'best' is timm/PE-Core-B-16" in caplog.messages


def test_what_is_on_this_machine_is_found_without_a_download(
    checkpoints: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(loading, "fetch", lambda *_: pytest.fail("something was fetched"))
    assert folder_here("builtin") == BUILTIN_FOLDER
    assert folder_here(str(checkpoints["clip"])) == checkpoints["clip"]
    assert folder_here("org/none") is None
    assert folder_here("best") is None
    with pytest.raises(EncoderError, match="one of the names that `evenreel models` lists"):
        folder_here("nothing")
