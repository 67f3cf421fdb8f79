"""xllamacpp's server inside this process: loaded, asked by its own listener what its Python side does not offer, freed.

Runs on the model's thread. Knows no requests, prompts or answers.
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import secrets
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from server.engines.llm.prefix_files import can_write
from server.engines.llm.xllama_request import llm_error
from server.errors import LlmError

log = logging.getLogger(__name__)

# Small batches: a cancelled prompt stops after the batch in work.
_BATCH_TOKENS = 64
# Slots are chosen by the engine (`prompt_slots.py`), and then the library's own cache of prompts is passed over.
_CACHE_RAM_MIB = 0
# Flash attention, which the library turns on by itself, is slow on a processor when few tokens meet a long prompt.
# Measured with 3,500 tokens read: off 38 tokens/s read and 16 written, on 18 and 9; reading the prefix takes the same.
FLASH_ATTENTION_OFF = 0
_HTTP_TIMEOUT_SECONDS = 30.0
_SILENT, _CHATTY = -1, 3


class XllamaServer:
    """`context_tokens`: of each slot. `prefix_dir`: where slots are saved; None: nowhere."""

    def __init__(
        self, model_path: Path, *, context_tokens: int, slots: int, threads: int, prefix_dir: Path | None
    ) -> None:
        self._model_path = model_path
        self._context_tokens = context_tokens
        self._slots = slots
        self._threads = threads
        self._prefix_dir = prefix_dir
        self._api_key = secrets.token_urlsafe(32)
        self.library: Any = None
        """The library's server; None when it is not loaded. Whoever holds it keeps the model."""

    def load(self) -> None:
        """Raises `LlmError` when the file is no model."""
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = str(self._model_path)
        params.n_parallel = self._slots
        params.n_ctx = self._context_tokens * self._slots  # the library divides it by the slots
        params.n_batch = params.n_ubatch = _BATCH_TOKENS
        params.flash_attn_type = type(params.flash_attn_type)(FLASH_ATTENTION_OFF)
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = self._threads
        params.cache_ram_mib = _CACHE_RAM_MIB
        # The listener cannot be turned off: loopback, any free port, a key nobody knows, nothing to browse.
        params.hostnames = ["127.0.0.1"]
        params.port = 0
        params.api_keys = [self._api_key]
        params.ui = False
        params.n_threads_http = 2
        params.verbosity = _CHATTY if log.isEnabledFor(logging.DEBUG) else _SILENT
        if self._prefix_dir is not None and can_write(self._prefix_dir):
            params.slot_save_path = f"{self._prefix_dir}{os.sep}"
        try:
            self.library = xllamacpp.Server(params)
        except RuntimeError as error:
            raise LlmError(
                f"The language model {self._model_path} cannot be loaded: {error}",
                code="engine_unavailable",
                hint="Run `stackchan models verify`.",
            ) from error

    def unload(self) -> None:
        self.library = None  # its destructor waits for the library's own threads

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Ask the listener. Raises `LlmError` for an error it tells."""
        address = urllib.parse.urlsplit(self.library.listening_address)
        connection = http.client.HTTPConnection(
            address.hostname or "127.0.0.1", address.port, timeout=_HTTP_TIMEOUT_SECONDS
        )
        try:
            connection.request(
                "POST",
                path,
                json.dumps(body),
                {"Authorization": f"Bearer {self._api_key}", "Content-Type": "application/json"},
            )
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        if "error" in answer:
            raise llm_error(answer["error"])
        return answer

    def first_token_of(self, key: str) -> int | None:
        """The token that writes this key after `{"`; None when this model's tokenizer does not write it as one."""
        tokens: list[int] = self.post("/tokenize", {"content": f'{{"{key}'})["tokens"]
        opening: list[int] = self.post("/tokenize", {"content": '{"'})["tokens"]
        if tokens[:-1] == opening:
            return tokens[-1]
        log.warning("the tool bias is not used: this model writes %r in another way", key)
        return None
