"""Starts a scaler, waits for a signal, and ends the process in order.

SIGTERM or Ctrl-C releases the Lease, so that another scaler takes over at once. A second signal
ends the process without that.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from typing import Final

import uvloop

from activator.build import description, running
from activator.discovery.api_server import ClusterConfigError
from activator.process import logs
from activator.process.logs import of_scaler
from activator.process.outputs import Outputs
from activator.scale import scaler as scalers
from activator.scale.http_server import AddressError
from activator.scale.scaler import ScalerProcess
from activator.scale.settings import ScaleSettings
from activator.scale.wake_all import wake_all
from activator.tls.certificates import TlsFileError

logger = logging.getLogger(__name__)

#: Allocations minus deallocations after which the garbage collector checks the young objects. One
#: check of so many objects takes 2 ms.
_GC_THRESHOLD: Final = 10_000


def _first_signal() -> asyncio.Event:
    """Return an event that SIGTERM or Ctrl-C sets. A second signal ends the process at once."""
    first, loop = asyncio.Event(), asyncio.get_running_loop()

    def on_signal(number: signal.Signals) -> None:
        if first.is_set():
            logger.warning("%s: ending now", number.name)
            os._exit(1)
        logger.info("%s: ending; a second one ends at once", number.name)
        first.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    return first


async def run(settings: ScaleSettings) -> int:
    """Run a scaler until a signal; return the exit status."""
    first_signal = _first_signal()
    async with scalers.running(scaler := ScalerProcess(settings, os.environ)) as task:
        addresses = scaler.addresses
        logger.info(
            "listening: %s", ", ".join(f"{k} {v}" for k, v in addresses.items()), extra=addresses
        )
        waiting = asyncio.ensure_future(first_signal.wait())
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if task.done():
            task.result()
            return 1
    logger.info("ended")
    return 0


def main(settings: ScaleSettings, *, wakes_all: bool = False) -> int:
    """Run a scaler until a signal or a failure ends it.

    Arguments:
        wakes_all: whether to wake all workloads instead, print which, and end.

    Returns:
        The exit status: 0 after a signal, or if all workloads are awake; else 1.
    """
    outputs = Outputs()
    outputs.install()
    logs.configure(settings.log_format, settings.log_level, of_scaler(settings.pod_name))
    logger.info("activator scale %s", description(), extra={"build": running().value})
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    # As in the activator: most allocations of a tick live as long as their Service.
    gc.set_threshold(_GC_THRESHOLD, 20, 50)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            if wakes_all:
                lines, status = runner.run(wake_all(settings))
                sys.stdout.writelines(f"{line}\n" for line in lines)
                return status
            return runner.run(run(settings))
        except (ClusterConfigError, AddressError, TlsFileError, OSError) as error:
            logger.error("%s", error)
            return 1
