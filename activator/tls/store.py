"""Chooses a listener's certificate by the host that a client names, from files that may change.

Also makes the context that verifies pods, by files of the same settings. The module knows no
listener. Source: KEDA HTTP add-on, interceptor/tls_config.go. It reads the files once, up to
version 0.15.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from activator.settings.config import Settings
from activator.settings.values import TlsParameterError
from activator.tls.certificates import (
    HTTP1,
    HTTP2,
    CertificateError,
    ServerContext,
    ServerTls,
    TlsFileError,
    TlsFiles,
    dns_names,
    read_certificates,
    server_context,
)
from activator.tls.internal_encryption import ServiceTls, pod_contexts

logger = logging.getLogger(__name__)

#: Seconds between two looks at the files. kubelet itself changes them within about a minute.
LOOK_EVERY: Final = 5.0
_WHAT: Final = "TLS by KEDA_HTTP_PROXY_TLS_CERT_PATH, _KEY_PATH and _CERT_STORE_PATHS"


class _Loaded(NamedTuple):
    """One certificate: its context and its hosts, and the state of its files."""

    seen: tuple[tuple[int, int], ...]
    context: ServerContext
    names: frozenset[str]


class StoreTls(ServerTls):
    """A listener's context with a certificate for each host; ``follow`` takes changed files.

    Arguments:
        default: the certificate for clients that name no host, or an unknown one.
        stores: folders with further certificates.
        make: returns the context of a certificate and a key in PEM.
    """

    def __init__(
        self,
        default: TlsFiles,
        stores: tuple[Path, ...],
        make: Callable[[bytes, bytes], ServerContext],
    ) -> None:
        """Read the files.

        Raises:
            TlsFileError: they cannot be used; the text names the file, and the remedy.
        """
        self._default = default
        self._stores = stores
        self._make = make
        self._by_name: dict[str, ServerContext] = {}
        self._loaded = {files: self._load(files) for files in self._pairs()}
        self._index()
        super().__init__(self._loaded[default].context)

    @property
    def expires(self) -> float:
        """When the first of the certificates expires, seconds since 1970."""
        return min(each.context.expires for each in self._loaded.values())

    def _pairs(self) -> Iterator[TlsFiles]:
        """Yield the files of each certificate; the default one is the last."""
        for store in self._stores:
            yield from _stored(store)
        yield self._default

    def _load(self, files: TlsFiles) -> _Loaded:
        try:
            seen = files.look()
            certificate, key, _ = files.read()
            made = self._make(certificate, key)
        except (OSError, TlsParameterError) as error:
            raise files.error(error) from None
        return _Loaded(seen, made, dns_names(certificate))

    def _index(self) -> None:
        self._by_name = {
            name: each.context for each in self._loaded.values() for name in each.names
        }

    async def follow(self) -> None:
        """Look for changed files until cancelled, in a thread: handshakes wait for no file."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            await asyncio.to_thread(self.renew)

    def renew(self) -> None:
        """Read files that have changed; an unusable one leaves its last certificate in force."""
        before, after = self._loaded, dict[TlsFiles, _Loaded]()
        try:
            for files in self._pairs():
                after[files] = self._renewed(files, before.get(files))
        except (OSError, TlsFileError) as error:
            logger.warning("the last certificates of the listener stay in force: %s", error)
            after = before | after
        if after != before:
            self._loaded = after
            self._index()
            self.replace(self._loaded[self._default].context)
            logger.info("certificates of the listener: %d", len(self._loaded))

    def _renewed(self, files: TlsFiles, known: _Loaded | None) -> _Loaded:
        if known is None:
            return self._load(files)
        try:
            return known if files.look() == known.seen else self._load(files)
        except (OSError, TlsFileError) as error:
            logger.warning("the last certificate of these files stays in force: %s", error)
            return known

    def _choose(self, handshake: ssl.SSLObject, name: str, listener: ssl.SSLContext) -> None:
        handshake.context = self._by_name.get((name or "").lower(), self.current)


def _stored(store: Path) -> Iterator[TlsFiles]:
    """Yield the files of each certificate of a folder, and of the folders below it.

    Raises:
        TlsFileError: there is no such folder.
    """
    if not store.is_dir():
        raise TlsFileError(f"{_WHAT}: {store} is no folder: mount it, or correct the path")
    seen = set[str]()
    for folder, folders, names in os.walk(store, followlinks=True):
        if (real := os.path.realpath(folder)) in seen:  # folders may be linked to each other
            folders.clear()
            continue
        seen.add(real)
        if folder.rpartition("/")[2].startswith(".."):  # kubelet's copies
            continue
        for name in sorted(names):
            stem, dot, ending = name.rpartition(".")
            if dot and ending in ("crt", "pem") and not name.endswith("-key.pem"):
                # Each ending of a certificate may come with each ending of a key, as in the add-on.
                keys = Path(folder, f"{stem}.key"), Path(folder, f"{stem}-key.pem")
                key = next(filter(Path.exists, keys), keys[ending == "pem"])
                yield TlsFiles(Path(folder, name), key, what=_WHAT)


def store_tls(settings: Settings) -> StoreTls | None:
    """Return the TLS side of the port for the dialect keda; None without one.

    Raises:
        TlsFileError: the files of the settings are unusable.
    """
    if not settings.keda_tls or "keda" not in settings.dialect:
        return None
    default = TlsFiles(Path(settings.keda_tls_cert), Path(settings.keda_tls_key), what=_WHAT)
    stores = _folders(settings.keda_tls_stores)
    make = partial(server_context, settings.tls, alpn=(HTTP2, HTTP1))
    made = StoreTls(default, stores, make)
    for note in settings.tls.apply(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)):
        logger.warning("TLS by KEDA_HTTP_PROXY_TLS_ENABLED: %s", note)
    return made


def _folders(paths: str) -> tuple[Path, ...]:
    return tuple(Path(path) for path in paths.split(",") if path)


def upstream_tls(settings: Settings) -> Callable[[str], ServiceTls]:
    """Return what makes the TLS side of connections to the pods of a Service, by its name.

    Its roots are the certificates of the listener too, as in the add-on. Public authorities are
    none: they sign no name of a Service.

    Raises:
        TlsFileError: a file of the settings is unusable.
    """
    files = [file for path in _folders(settings.keda_tls_ca_dirs) for file in path.glob("[!.]*")]
    if settings.keda_tls:
        stores = map(_stored, _folders(settings.keda_tls_stores))
        files += [each.certificate for each in chain.from_iterable(stores)]
        files.append(Path(settings.keda_tls_cert))
    roots = frozenset[str]()
    for file in filter(Path.is_file, files):
        try:
            roots |= read_certificates(file.read_bytes())
        except (OSError, CertificateError) as error:
            raise TlsFileError(f"TLS to pods, by KEDA_HTTP_TLS_CA_DIRS ({file}): {error}") from None
    contexts = pod_contexts(roots)
    for context in contexts.values():
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if settings.keda_tls_skip_verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return partial(ServiceTls, context_of=contexts.__getitem__)
