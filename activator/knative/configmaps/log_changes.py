"""Applies the ConfigMap ``config-logging`` to the process log.

``process_log`` reads the ConfigMap; this module acts. Knative reads the form of lines at start
only (knative.dev/pkg logging/config.go).
"""

from __future__ import annotations

import logging
import sys

from activator.knative.configmaps.process_log import LoggingConfig
from activator.process import logs

logger = logging.getLogger(__name__)


class LogChanges:
    """The process log, as the ConfigMap has it.

    Arguments:
        default_level: lowest severity in the log if the ConfigMap has none.
    """

    def __init__(self, default_level: str) -> None:
        self._default_level = default_level
        self._logged_ignored: tuple[str, ...] = ()

    def apply(self, config: LoggingConfig) -> None:
        """Change level and form of the log; log keys that have no effect once."""
        logs.change_level(config.level or self._default_level)
        if (zap := config.zap) is None:
            logs.reshape()
            return
        logs.reshape(zap.shape, zap.encoding, sys.stdout if zap.stream == "stdout" else None)
        logged, self._logged_ignored = self._logged_ignored, zap.ignored
        if zap.ignored and zap.ignored != logged:
            logger.warning("zap-logger-config: not supported: %s", ", ".join(zap.ignored))
