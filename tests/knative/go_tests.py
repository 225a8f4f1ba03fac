"""All tests of Knative that exercise the activator: replayed in this folder, or the reason why not.

Data only; test_coverage.py compares it with the tests of this folder. The rows come from
knative/serving at 98e5ef9. A row is a Go test, or one case of its table as ``Test/case``.

A test of this folder replays each row without a reason. Its name is ``test_`` and the Go test; with
several cases, ``__`` and the case follow. A reason says why no test replays the row, and which
other tests check the same behaviour.
"""

from __future__ import annotations

from typing import Final

REPLAYED: Final = ""

_BREAKER = "inside: this queue differs; see tests/throttler/test_queued_tickets.py"
_BENCHMARK = "a benchmark; see benchmarks/"
_CLUSTER = "needs Knative's other parts in a cluster: "
_HTTP2 = "needs an HTTP/2 client; see tests/grpc/ and tests/e2e/test_nghttp2.py"
_QUEUE_PROXY = "concerns only queue-proxy"

GO_TESTS: Final[dict[str, dict[str, str]]] = {
    "pkg/activator/net/revision_backends_test.go": {
        "TestRevisionWatcher/single healthy podIP": REPLAYED,
        "TestRevisionWatcher/single not ready but healthy podIP": REPLAYED,
        "TestRevisionWatcher/single http2 podIP": REPLAYED,
        "TestRevisionWatcher/single http2 clusterIP": REPLAYED,
        "TestRevisionWatcher/no pods": REPLAYED,
        "TestRevisionWatcher/single unavailable podIP": REPLAYED,
        "TestRevisionWatcher/single error podIP": REPLAYED,
        "TestRevisionWatcher/podIP slow ready": REPLAYED,
        "TestRevisionWatcher/multiple healthy podIP": REPLAYED,
        "TestRevisionWatcher/one healthy one unhealthy podIP": REPLAYED,
        "TestRevisionWatcher/one healthy one unhealthy podIP then both healthy": REPLAYED,
        "TestRevisionWatcher/clusterIP slow ready, no pod addressability": REPLAYED,
        "TestRevisionWatcher/clusterIP ready, no pod addressability": REPLAYED,
        "TestRevisionWatcher/clusterIP ready, pod fails with non-mesh error then succeeds": "",
        "TestRevisionWatcher/passthrough lb, clusterIP ready but no fallback": REPLAYED,
        "TestRevisionWatcher/mesh mode enabled: pod ready but should still use cluster IP": "",
        "TestRevisionWatcher/mesh mode disabled: pod initially returns mesh error": REPLAYED,
        "TestRevisionWatcher/ready pod in k8s api when mesh compat disabled": REPLAYED,
        "TestRevisionBackendManagerAddEndpoint/add slow healthy": REPLAYED,
        "TestRevisionBackendManagerAddEndpoint/add slow ready http2": REPLAYED,
        "TestRevisionBackendManagerAddEndpoint/multiple revisions": REPLAYED,
        "TestRevisionBackendManagerAddEndpoint/no pods available, but non-mesh-related error": "",
        "TestRevisionBackendManagerAddEndpoint/no pod addressability": REPLAYED,
        "TestRevisionBackendManagerAddEndpoint/unhealthy": REPLAYED,
        "TestRevisionBackendManagerAddEndpoint/unready pod successfully probed": REPLAYED,
        "TestRevisionBackendManagerAddEndpoint/exec probe only ready when kubernetes agrees": "",
        "TestRevisionBackendManagerAddEndpoint/exec probe goes ready": REPLAYED,
        "TestRevisionBackendManagerAddEndpoint/sidecar exec probe not ready": REPLAYED,
        "TestRevisionBackendManagerAddEndpoint/sidecar exec probe ready": REPLAYED,
        "TestCheckDestsReadyToNotReady": REPLAYED,
        "TestCheckDests": "inside: a separate round; here a ClusterIP is one more pod",
        "TestCheckDestsSwinging": REPLAYED,
        "TestRevisionDeleted": REPLAYED,
        "TestServiceDoesNotExist": REPLAYED,
        "TestServiceMoreThanOne": REPLAYED,
        "TestProbePodIPs/all healthy": REPLAYED,
        "TestProbePodIPs/one pod fails probe": REPLAYED,
        "TestProbePodIPs/ready pods skipped with mesh disabled": REPLAYED,
        "TestProbePodIPs/ready pods not skipped with mesh auto": REPLAYED,
        "TestProbePodIPs/only ready pods healthy without optimisation": REPLAYED,
        "TestProbePodIPs/removes non existent pods": REPLAYED,
        "TestProbePodIPs/non probe additions count as changes": "inside: what a round returns",
        "TestProbePodIPs/non probe removals count as changes": "inside: what a round returns",
        "TestProbePodIPs/no changes with probes": "inside: what a round returns",
        "TestProbePodIPs/no changes without probes": "inside: what a round returns",
        "TestProbePodIPs/mesh probe error": "inside: the class of a response",
    },
    "pkg/activator/net/throttler_test.go": {
        "TestThrottlerUpdateCapacity": REPLAYED,
        "TestThrottlerCalculateCapacity": "inside; see tests/throttler/test_capacity.py",
        "TestThrottlerErrorNoRevision": REPLAYED,
        "TestThrottlerErrorOneTimesOut": REPLAYED,
        "TestThrottlerSuccesses": REPLAYED,
        "TestPodAssignmentFinite": REPLAYED,
        "TestPodAssignmentInfinite": REPLAYED,
        "TestActivatorsIndexUpdate": REPLAYED,
        "TestMultipleActivators": REPLAYED,
        "TestInfiniteBreakerCreation": "inside: there is no second kind of breaker here",
        "TestInfiniteBreaker": REPLAYED,
        "TestInferIndex": REPLAYED,
        "TestPickIndices": REPLAYED,
        "TestAssignSlice": REPLAYED,
    },
    "pkg/activator/net/lb_policy_test.go": {
        "TestRandomChoice_TwoTrackersDistribution": REPLAYED,
        "TestRandomChoice2": REPLAYED,
        "TestFirstAvailable": REPLAYED,
        "TestRoundRobin": REPLAYED,
        "BenchmarkPolicy": _BENCHMARK,
    },
    "pkg/activator/net/helpers_test.go": {
        "TestEndpointsToDests": REPLAYED,
        "TestGetServicePort": "inside; TestRevisionWatcher's ClusterIP cases show its effect",
        "BenchmarkHealthyAddresses": _BENCHMARK,
        "BenchmarkEndpointsToDests": _BENCHMARK,
    },
    "pkg/activator/handler/handler_test.go": {
        "TestActivationHandler/active endpoint": REPLAYED,
        "TestActivationHandler/request error": REPLAYED,
        "TestActivationHandler/timeout": "503 by a context's deadline: no server sets one",
        "TestActivationHandler/overflow": REPLAYED,
        "TestActivationHandlerProxyHeader": REPLAYED,
        "TestActivationHandlerPassthroughLb": REPLAYED,
        "TestActivationHandlerTraceSpans": REPLAYED,
        "TestUseSecurePort": REPLAYED,
        "BenchmarkHandler": _BENCHMARK,
    },
    "pkg/activator/handler/context_handler_test.go": {
        "TestContextHandler": REPLAYED,
        "TestContextHandlerError": REPLAYED,
        "BenchmarkContextHandler": _BENCHMARK,
    },
    "pkg/activator/handler/healthz_handler_test.go": {
        "TestHealthHandler": REPLAYED,
        "BenchmarkHealthHandler": _BENCHMARK,
    },
    "pkg/activator/handler/probe_handler_test.go": {
        "TestProbeHandler": REPLAYED,
        "BenchmarkProbeHandler": _BENCHMARK,
    },
    "pkg/activator/handler/metric_handler_test.go": {
        "TestRequestMetricHandler": REPLAYED,
        "BenchmarkMetricHandler": _BENCHMARK,
    },
    "pkg/activator/handler/tracing_handler_test.go": {
        "TestTracingAttributeHandler": REPLAYED,
    },
    "pkg/activator/handler/concurrency_reporter_test.go": {
        "TestStats": REPLAYED,
        "TestConcurrencyReporterRun": REPLAYED,
        "TestConcurrencyReporterHandler": REPLAYED,
        "TestConcurrencyReporterRace": "inside: there is one thread here, and no such race",
        "TestMetricsReported": REPLAYED,
        "BenchmarkConcurrencyReporterHandler": _BENCHMARK,
        "BenchmarkConcurrencyReporterReport": _BENCHMARK,
    },
    "pkg/activator/handler/main_test.go": {
        "TestActivatorChainHandlerWithFullDuplex": REPLAYED,
        "BenchmarkHandlerChain": _BENCHMARK,
    },
    "pkg/activator/stat_reporter_test.go": {
        "TestReportStats": REPLAYED,
        "TestReportStatsSendFailure": REPLAYED,
        "TestAutoscalerConnectionOptions": "inside: the number of callbacks",
    },
    "pkg/activator/config/store_test.go": {
        "TestStore": "inside: a store that no handler reads",
    },
    "pkg/activator/certificate": {
        "TestReconcile": REPLAYED,
        "TestVerifySAN": REPLAYED,
    },
    "cmd/activator": {
        "TestUpdateRequestLogFromConfigMap": REPLAYED,
        "TestRequestLogTemplateInputGetter": REPLAYED,
    },
    "pkg/queue/breaker_test.go": {
        "TestBreakerInvalidConstructor": _BREAKER,
        "TestBreakerReserveOverload": _BREAKER,
        "TestBreakerOverloadMixed": _BREAKER,
        "TestBreakerOverload": REPLAYED,
        "TestBreakerQueueing": REPLAYED,
        "TestBreakerNoOverload": REPLAYED,
        "TestBreakerCancel": REPLAYED,
        "TestBreakerUpdateConcurrency": _BREAKER,
        "TestSemaphoreAcquireHasNoCapacity": _BREAKER,
        "TestSemaphoreAcquireNonBlockingHasNoCapacity": _BREAKER,
        "TestSemaphoreAcquireHasCapacity": _BREAKER,
        "TestSemaphoreRelease": _BREAKER,
        "TestSemaphoreUpdateCapacity": _BREAKER,
        "TestPackUnpack": _BREAKER,
        "BenchmarkBreakerMaybe": _BENCHMARK,
        "BenchmarkBreakerReserve": _BENCHMARK,
    },
    "pkg/http/handler/timeout_test.go": {
        "TestTimeoutWriterAllowsForAdditionalWritesBeforeTimeout": REPLAYED,
        "TestTimeoutWriterDoesntFlushAfterTimeout": "inside: a writer's flush",
        "TestTimeoutWriterFlushesBeforeTimeout": "inside: a writer's flush",
        "TestTimeoutWriterErrorsWriteAfterTimeout": REPLAYED,
        "TestTryTimeoutAndWriteErrorBehavior": REPLAYED,
        "TestTimeToResponseStartTimeoutHandler": REPLAYED,
        "TestResponseStartTimeoutAfterResponseStarted": REPLAYED,
        "TestIdleTimeoutHandler": REPLAYED,
        "TestTimeoutHandler": REPLAYED,
        "BenchmarkTimeoutHandler": _BENCHMARK,
    },
    "pkg/http/proxy_test.go": {
        "TestNewHeaderPruningProxy": REPLAYED,
        "TestNewHeaderPruningProxyHTTPS": REPLAYED,
    },
    "pkg/http/request_log_test.go": {
        "TestRequestLogHandler": REPLAYED,
        "TestPanickingHandler": REPLAYED,
        "TestFailedTemplateExecution": REPLAYED,
        "TestSetTemplate": REPLAYED,
    },
    "pkg/http/response_recorder_test.go": {
        "TestResponseRecorder": "inside: a recorder between handlers, which does not exist here",
    },
    "pkg/http/trace_test.go, trace_integration_test.go": {"all of them": _QUEUE_PROXY},
    "pkg/http/handler/hijack_test.go": {"its three tests": _QUEUE_PROXY},
    "pkg/reconciler/serverlessservice": {
        "each of its tests": "concerns the controller that writes the Endpoints",
    },
    "test/e2e/activator_test.go": {"TestActivatorOverload": REPLAYED},
    "test/e2e/timeout_test.go, test/conformance/api/v1/revision_timeout_test.go": {
        "TestRevisionTimeout": REPLAYED,
    },
    "test/conformance/api/v1/single_threaded_test.go": {"TestSingleConcurrency": REPLAYED},
    "test/conformance/runtime": {
        "TestProtocols": REPLAYED,
        "TestMustHaveHeadersSet": REPLAYED,
        "TestShouldHaveHeadersSet": REPLAYED,
        "TestProbeRuntime": REPLAYED,
        "TestProbeRuntimeAfterStartup": REPLAYED,
    },
    "test/e2e/grpc_test.go": {
        "TestGRPCUnaryPing": _HTTP2,
        "TestGRPCUnaryPingViaActivator": _HTTP2,
        "TestGRPCStreamingPing": _HTTP2,
        "TestGRPCStreamingPingViaActivator": _HTTP2,
        "TestGRPCAutoscaleUpDownUp": _HTTP2,
        "TestGRPCLoadBalancing": _HTTP2,
    },
    "test/e2e/http2_test.go": {
        "TestHelloHTTP2WithPortNameH2C": _HTTP2,
        "TestHelloHTTP2WithEmptyPortName": "skipped by Knative itself",
    },
    "test/e2e/websocket_test.go, test/e2e/domainmapping": {
        "TestWebSocket": REPLAYED,
        "TestWebSocketViaActivator": REPLAYED,
        "TestWebSocketBlueGreenRoute": _CLUSTER + "the ingress splits the traffic",
        "TestWebSocketGracefulShutdown": REPLAYED,
        "TestWebSocketWithTimeout": REPLAYED,
        "TestDomainMappingWebsocket": REPLAYED,
    },
    "test/e2e/service_to_service_test.go": {"TestSvcToSvcViaActivator": REPLAYED},
    "test/e2e/autoscale_test.go": {
        "TestTargetBurstCapacity": _CLUSTER + "the autoscaler decides what is in the path",
        "TestTargetBurstCapacityMinusOne": _CLUSTER + "the components in the path",
        "TestTargetBurstCapacityZero": _CLUSTER + "the components in the path",
        "TestFastScaleToZero": _CLUSTER + "the autoscaler decides how soon pods end",
        "TestAutoscaleUpDownUp": _CLUSTER + "how many pods there are",
        "TestAutoscaleSustaining": _CLUSTER + "how many pods there are",
        "TestAutoscaleUpCountPods": _CLUSTER + "how many pods there are",
        "TestActivationScale": _CLUSTER + "how many pods there are",
    },
    "test/e2e/destroypod_test.go": {
        "TestDestroyPodInflight": REPLAYED,
        "TestDestroyPodTimely": _CLUSTER + "the time until a pod has ended",
        "TestDestroyPodWithRequests": REPLAYED,
    },
    "test/e2e: initscale, initial_scale_test.go, minscale_readiness_test.go": {
        "all three": _CLUSTER + "how many pods there are",
    },
    "test/e2e/multicontainerprobing": {
        "TestMultiContainerReadiness": REPLAYED,
        "TestMultiContainerReadinessDifferentProbeTypes": REPLAYED,
        "TestMultiContainerProbeStartFailingAfterReady": REPLAYED,
    },
    "test/e2e/systeminternaltls": {
        "TestSystemInternalTLS": REPLAYED,
        "TestTLSCertificateRotation": REPLAYED,
        "TestGracefulShutdownWithTLS": _CLUSTER + "queue-proxy drains the pod",
        "TestSystemInternalTLSWithServeMode": _CLUSTER + "the components in the path",
    },
    "test/ha/activator_test.go": {
        "TestActivatorHAGraceful": REPLAYED,
        "TestActivatorHANonGraceful": "a killed process; "
        "TestActivatorsIndexUpdate replays its effect on the other activator",
    },
    "test/ha/workload_test.go": {"TestWorkloadHA": REPLAYED},
    "test/upgrade, test/scale": {
        "AutoscaleSustainingWithTBCTest": _CLUSTER + "an upgrade of Knative",
        "TestScaleToN": _CLUSTER + "many services from zero",
    },
    "test/performance/benchmarks": {
        "dataplane-probe": _BENCHMARK,
        "scale-from-zero": _BENCHMARK,
        "load-test": _BENCHMARK,
    },
}

#: Tests of this folder without a Go test: the bytes that peers rely on.
OUR_OWN: Final = frozenset({"test_wire.py", "test_defects.py", "test_coverage.py"})
