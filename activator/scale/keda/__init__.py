"""Serves KEDA: the external push scaler over gRPC. Only the scaler imports grpcio."""

from typing import Final

#: The key of a trigger's metadata that names the Service, in the namespace of the ScaledObject.
SERVICE_KEY: Final = "service"
