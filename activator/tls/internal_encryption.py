"""Manages the activator's certificate and the roots of pods for encryption within the cluster.

They come from the current Secret and trust bundles. The module logs an unusable one, and the last
usable state stays in force. It knows no Kubernetes, no listener and no pool. Knative's
counterparts: pkg/activator/certificate, knative.dev/networking pkg/certificates/constants.go.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from activator.knative.words import CERTIFICATE_SECRET, DATA_PLANE
from activator.settings.values import TlsParameterError, TlsParameters
from activator.tls.certificates import (
    HTTP1,
    HTTP2,
    CertificateError,
    ServerContext,
    ServerTls,
    read_certificates,
    server_context,
    trust,
)

logger = logging.getLogger(__name__)

CERTIFICATE, KEY, CA = "tls.crt", "tls.key", "ca.crt"
#: Ports of pods and of their Services (pkg/networking/constants.go).
POD_PORT: Final = 8112
SERVICE_PORT: Final = 443


class InternalTlsError(Exception):
    """No certificate for the start; the text says what is missing and where."""


class PodTls:
    """Verifies the certificates of pods.

    Attributes:
        server_name: the host in the handshake.
        context_of: returns the context of new connections for a protocol of HTTP.
    """

    server_name = DATA_PLANE

    def __init__(self) -> None:
        self.trust(frozenset())

    def trust(self, roots: frozenset[str]) -> None:
        """Verify new connections by these roots."""
        self.context_of = pod_contexts(roots).__getitem__

    def check(self, handshake: ssl.SSLObject, namespace: str) -> str:
        """Return why a valid certificate is not of this namespace; empty if it is.

        The certificates of all pods are valid for the same host. A second name has the namespace.
        """
        wanted = f"kn-user-{namespace.lower()}"
        certificate = handshake.getpeercert() or {}
        names = [name[1] for name in certificate.get("subjectAltName", ()) if name[0] == "DNS"]
        if wanted in names:
            return ""
        return f"the certificate is for {', '.join(map(str, names))} and not for {wanted}"


def pod_contexts(roots: frozenset[str]) -> dict[str, ssl.SSLContext]:
    """Return contexts that verify pods by roots, by protocol of HTTP."""
    return {protocol: _pod_context(roots, protocol) for protocol in (HTTP1, HTTP2)}


def _pod_context(roots: frozenset[str], protocol: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.hostname_checks_common_name = False
    # Each given certificate is a root, also one with another issuer, as in Go.
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    context.set_alpn_protocols([protocol])
    trust(context, sorted(roots))
    return context


class InternalTls:
    """The certificates of the Secret and the trust bundles.

    Arguments:
        parameters: the TLS parameters of the listener.
        namespace: the namespace of the Secret, for messages.

    Attributes:
        pods: verifies pods.
        server: the listener's side; exists after ``start``.
        on_withdrawn: called when a root of open connections is no longer trusted.
    """

    server: ServerTls

    def __init__(self, parameters: TlsParameters, namespace: str) -> None:
        self._parameters = parameters
        self._namespace = namespace
        self._secret_name = f"Secret {namespace}/{CERTIFICATE_SECRET}"
        self.pods = PodTls()
        self.on_withdrawn: Callable[[], None] = lambda: None
        self.started = False
        self._secret: Mapping[str, bytes] = {}
        self._bundles: tuple[str, ...] = ()
        self._roots: frozenset[str] = frozenset()

    def start(self) -> None:
        """Start with the current Secret and bundles.

        Raises:
            InternalTlsError: the Secret is missing or unusable.
        """
        if not self._secret:
            raise InternalTlsError(
                f"{self._secret_name} is missing: system-internal-tls is enabled in "
                f"config-network, which needs it for port 8112. Knative's controller makes it "
                f"where cert-manager is installed; by hand: kubectl create secret generic "
                f"{CERTIFICATE_SECRET} -n {self._namespace} --from-file=tls.crt=FILE "
                f"--from-file=tls.key=FILE --from-file=ca.crt=FILE, the last by which pods are "
                f"verified"
            )
        try:
            context = self._server_context()
        except (CertificateError, TlsParameterError) as error:
            raise InternalTlsError(f"{self._secret_name} cannot be used: {error}") from None
        for note in self._parameters.apply(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)):
            logger.warning("TLS on port 8112: %s", note)
        self.server = ServerTls(context)
        self.started = True
        self._renew_roots()
        if not self._roots:
            logger.warning(
                "no pod can be verified: %s has no %s, and there is no trust bundle",
                self._secret_name,
                CA,
            )

    def set_secret(self, data: Mapping[str, bytes]) -> None:
        """Set the data of the Secret; empty if it was deleted."""
        if not self.started:
            self._secret = data
            return
        if not data:
            logger.warning("%s was deleted; its last certificates stay in use", self._secret_name)
            return
        self._secret = data
        try:
            self.server.replace(self._server_context())
        except (CertificateError, TlsParameterError) as error:
            logger.warning("%s: the last certificate stays in force: %s", self._secret_name, error)
        else:
            logger.info("%s: its certificate is in force", self._secret_name)
        self._renew_roots()

    def set_bundles(self, pems: tuple[str, ...]) -> None:
        """Set all trust bundles."""
        self._bundles = pems
        if self.started:
            self._renew_roots()

    def _server_context(self) -> ServerContext:
        data = self._secret
        for key in (CERTIFICATE, KEY):
            if not data.get(key):
                raise CertificateError(f"it has no {key}")
        return server_context(self._parameters, data[CERTIFICATE], data[KEY], alpn=(HTTP2, HTTP1))

    def _renew_roots(self) -> None:
        """Trust the current roots.

        While a source is unusable, all earlier roots stay trusted, as they may be in that source.
        """
        roots, whole = frozenset[str](), True
        for where, pem in self._sources():
            try:
                roots |= read_certificates(pem)
            except CertificateError as error:
                whole = False
                logger.warning("%s is ignored, and earlier roots stay trusted: %s", where, error)
        if not whole:
            roots |= self._roots
        if roots == self._roots:
            return
        withdrawn = self._roots - roots
        self.pods.trust(roots)
        self._roots = roots
        logger.info("CA certificates that verify pods: %d", len(roots))
        if withdrawn:
            self.on_withdrawn()

    def _sources(self) -> list[tuple[str, bytes]]:
        ca = self._secret.get(CA, b"")
        found = [(f"{self._secret_name}: {CA}", ca)] if ca.strip() else []
        return found + [("a trust bundle", pem.encode()) for pem in self._bundles if pem.strip()]


@cache
def unverified_context(protocol: str) -> ssl.SSLContext:
    """Return a context that accepts any certificate, with one protocol of HTTP."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    return context


class ServiceTls:
    """Encrypts connections to the pods of a Service; has the interface of PodTls.

    By default it verifies nothing, as kubelet does: nothing in Kubernetes gives such pods a
    certificate that the activator could verify.

    Arguments:
        server_name: the host in the handshake; empty if only the pod's address is known.
        context_of: returns the context for a protocol of HTTP. It checks the host, if it must.
    """

    def __init__(
        self,
        server_name: str = "",
        context_of: Callable[[str], ssl.SSLContext] = unverified_context,
    ) -> None:
        self.server_name = server_name
        self.context_of = context_of

    def check(self, handshake: ssl.SSLObject, namespace: str) -> str:
        """Return nothing: the handshake has checked what there is to check."""
        return ""
