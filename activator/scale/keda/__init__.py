"""Serves KEDA: the external push scaler over gRPC. Only the scaler imports grpcio."""
