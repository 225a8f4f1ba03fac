"""Make the screenshots of the dashboard for the docs, with an activator under traffic.

    make screenshots

The activator has services that are busy, full, at zero, broken and idle, of Knative and of plain
Kubernetes. After minutes of traffic it has a history. Then the script makes the screenshots in
light and dark, and prints the load times and sizes of the page. The page of the scaler has a scaler
of its own.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic

import uvloop
from playwright.async_api import Browser, Page, ViewportSize, expect

from activator.lab.objects import revision
from activator.lab.programs import fetch
from tests.activator.discovery.recording import config_map
from tests.activator.plain import objects as plain
from tests.activator.scale.world import cluster, leader
from tests.browser.chromium import chromium
from tests.e2e.knative import ApiServer, Autoscaler, Deployment, Pod
from tests.e2e.world import at
from tests.process import ANY_PORTS, ROOT, Activator, activator

FOLDER = ROOT / "docs" / "images"
SIZE: ViewportSize = {"width": 1280, "height": 800}
#: Seconds of traffic before the screenshots.
PAST = 240
#: Most bytes of a screenshot, because the repository keeps each version.
MOST_BYTES = 150_000
#: Debian's program that reduces the colours of a picture.
PALETTE = "pngquant"
#: Number of page loads for a median.
LOADS = 9
WAKING, FULL, BROKEN, BUSY = "thumbnails-00007", "checkout-00042", "invoices-00003", "search-00019"
LATE = "reports-00005"
IDLE = (LATE, "accounts-00011", "avatars-00002", "newsletter-00001", "webhooks-00023")
#: Requests of the bursts to the full service.
BURSTS = (20, 45, 30, 70, 25, 55, 90, 35, 60, 40, 80, 50, 30, 65)
#: Requests of the bursts to the service that scales to zero between them.
WAKES = (6, 25, 14, 40, 9, 31, 18, 12)
#: Plain Services in the namespace `shop`: one with a pod, and two that sleep.
SERVED, ASLEEP, QUIET = "orders", "mailer", "reviews"


async def pause(seconds: float) -> None:
    """Wait between two steps of the traffic."""
    await at(monotonic() + seconds)


class Starting(Deployment):
    """A deployment whose pods start slowly, as in a cluster: an image pull, then an application.

    Attributes:
        starts: whether applications start at all.
    """

    starts = True

    def scale_up(self, count: int) -> None:
        super().scale_up(min(count, 3))

    async def _bring_up(self, pod: Pod) -> None:
        await pause(1 + 0.3 * len(self.pods))
        pod.switches.ready = False
        if self.starts:
            asyncio.get_running_loop().call_later(0.7, setattr, pod.switches, "ready", True)
            await super()._bring_up(pod)
        else:
            await pod.start()
            self._publish()


async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Respond to each request after 0.15 s, as the pod of a plain Service."""
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while await reader.readuntil(b"\r\n\r\n"):
            await pause(0.15)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    writer.close()


class Traffic:
    """Services, and the clients that send requests to them."""

    def __init__(self, api: ApiServer, tasks: asyncio.TaskGroup) -> None:
        self.activator: Activator
        self.waking = Starting(api, WAKING, 2)
        self.full = Deployment(api, FULL, 4)
        self.broken = Deployment(api, BROKEN, 1)
        self.busy = Deployment(api, BUSY, 0)
        self.autoscaler = Autoscaler(self.waking, 2.0, self._is_activator_in_path)
        self._running: list[asyncio.Task[None]] = []
        self._tasks = tasks
        for name in IDLE:
            api.put(revision(name, uid=f"uid-of-{name}"))
        for name in (SERVED, ASLEEP, QUIET):
            labels = {"app": name}
            api.put(plain.named(plain.service(selector=labels), name, uid=f"uid-of-{name}"))
            template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web"}]}}
            api.put(plain.named(plain.deployment(template=template), name))

    async def _is_activator_in_path(self) -> bool:
        return True

    async def play(self, seconds: float) -> None:
        """Send requests to all services for so many seconds; leave queued requests at the end."""
        self.full.scale_up(2)
        self.broken.scale_up(1)
        self.busy.scale_up(3)
        waves = [self._waves(BUSY, (2,), 0.1, 150), self._waves(FULL, BURSTS, 11, 250)]
        waves += [self._waves(f"{SERVED}.shop", (1,), 0.25, 0)]
        waves += [self._waves(WAKING, WAKES, 37, 400), self._waves(BROKEN, (1,), 7, 40)]
        running = [self._tasks.create_task(wave) for wave in waves]
        await pause(seconds)
        for task in running[3:]:
            task.cancel()
        running[1].cancel()
        self._running += [running[0], running[2]]
        await self.broken.pods[0].end()  # Kubernetes lists it still
        self._ask(BROKEN, 3, 40)
        await pause(5)
        self.full.gate.clear()
        self._ask(FULL, 31, 40)
        await pause(2)
        await self.waking.until(lambda: not self.waking.pods)  # the autoscaler's doing
        self.waking.starts = False
        self._ask(WAKING, 12, 120)
        self._ask(LATE, 1, 40)
        self._ask(f"{ASLEEP}.shop", 2, 0)
        await pause(8)

    def end(self) -> None:
        """Cancel all requests."""
        self.full.gate.set()
        for task in self._running:
            task.cancel()

    async def _waves(self, name: str, sizes: tuple[int, ...], seconds: float, ms: int) -> None:
        for turn in range(1_000_000):
            self._ask(name, sizes[turn % len(sizes)], ms)
            await pause(seconds)

    def _ask(self, name: str, count: int, ms: int) -> None:
        for _ in range(count):
            self._running.append(self._tasks.create_task(self._request(name, ms)))

    async def _request(self, name: str, ms: int) -> None:
        in_namespace = name if "." in name else f"{name}.default"
        host = {"Host": f"{in_namespace}.svc.cluster.local"}
        with suppress(OSError):
            await fetch(*await self.activator.address("http"), f"/sleep?ms={ms}", "GET", host)


@asynccontextmanager
async def traffic(folder: Path) -> AsyncIterator[Traffic]:
    """Provide an activator in a cluster, without any traffic yet."""
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(ApiServer())
        for name in ("config-network", "config-logging", "config-observability"):
            api.put(config_map(name))
        pod = await stack.enter_async_context(await asyncio.start_server(respond, "127.0.0.1", 0))
        port = pod.sockets[0].getsockname()[1]
        listed = plain.slice_of(plain.endpoint("127.0.0.1"), of=SERVED)
        api.put(listed | {"ports": [{"name": "", "port": port, "protocol": "TCP"}]})
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        made = Traffic(api, tasks)
        for part in (made.waking, made.full, made.broken, made.busy, made.autoscaler):
            await stack.enter_async_context(part)
        running = activator(
            *("run", *ANY_PORTS),
            environment={
                "POD_NAME": "activator-7c9f5d8b6d-x2x7k",
                "POD_IP": "10.0.0.11",
                "SYSTEM_NAMESPACE": "knative-serving",
                "KUBECONFIG": api.kubeconfig(folder),
                "ACTIVATOR_AUTOSCALER_URL": made.autoscaler.url,
                "ACTIVATOR_DIALECT": "knative,services",
                "ACTIVATOR_SCALER_URL": "",
            },
        )
        made.activator = await stack.enter_async_context(running)
        await made.activator.logged("autoscaler connected")
        try:
            yield made
        finally:
            made.end()


async def scaler(browser: Browser, folder: Path) -> dict[Path, bytes]:
    """Make the screenshots of the scaler's page: Services that sleep, start and have problems."""
    own = folder / "scaler"
    own.mkdir()
    async with cluster(own) as kube:
        await kube.add(SERVED, 2, target_concurrency="2")
        await kube.set_ready(SERVED, 2)
        await kube.add(ASLEEP)
        await kube.add(QUIET, owner="keda")
        await kube.add("thumbnails", target="deployment/thumbnailer")
        await kube.add("checkout", 1, owner="hpa")
        async with (
            leader(kube) as running,
            running.activator("activator-1") as one,
            running.activator("activator-2") as other,
        ):
            one.hold(3, SERVED)
            other.hold(1, ASLEEP)
            page = await browser.new_page(viewport=SIZE)
            await page.goto(f"http://{running.scaler.addresses['admin']}/")
            await expect(page.locator("tr[data-service]")).to_have_count(5)
            row = page.locator(f'tr[data-service="shop/{ASLEEP}"]')
            await expect(row.locator(".change")).to_contain_text("0 → 1")
            row = page.locator(f'tr[data-service="shop/{SERVED}"]')
            await expect(row.locator(".load")).to_have_text("3")
            return await take(page, "scaler")


async def take(page: Page, name: str) -> dict[Path, bytes]:
    """Make the screenshots of a page in both schemes; return their paths and contents."""
    taken = {}
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        path = FOLDER / f"{name}-{scheme}.png"
        # The first one of a page taller than the window lacks rows that were never painted.
        await page.screenshot(full_page=True, animations="disabled")
        taken[path] = await page.screenshot(full_page=True, animations="disabled")
    return taken


def keep(taken: dict[Path, bytes]) -> None:
    """Reduce the colours of the screenshots, and write them.

    Raises:
        SystemExit: one has more than `MOST_BYTES`.
    """
    FOLDER.mkdir(exist_ok=True)
    for path, picture in taken.items():
        done = subprocess.run([PALETTE, "-"], input=picture, capture_output=True, check=True)
        path.write_bytes(done.stdout)
        print(f"{path.relative_to(ROOT)}: {len(done.stdout):,} bytes")
        if len(done.stdout) > MOST_BYTES:
            raise SystemExit(f"{path}: more than {MOST_BYTES:,} bytes")


#: Milliseconds from navigation to the first paint and the first row, and the loaded files.
COST = """async () => {
    const [paint] = performance.getEntriesByName("first-contentful-paint");
    const files = [...performance.getEntriesByType("navigation"),
        ...performance.getEntriesByType("resource").filter(({ name }) => !name.includes("/api/"))];
    const bytes = (of) => files.reduce((sum, file) => sum + file[of], 0);
    return {
        paint: paint.startTime, rows: window.rowsAt, files: files.length,
        wire: bytes("transferSize"), plain: bytes("decodedBodySize"),
    };
}"""
#: Records when the first revision is on the page.
ROWS = """new MutationObserver((_, watch) => {
    if (!document.querySelector("tr[data-revision]")) return;
    window.rowsAt = performance.now();
    watch.disconnect();
}).observe(document, { childList: true, subtree: true });"""


async def cost(browser: Browser, url: str) -> None:
    """Print the load times of the page, and its bytes."""
    found = []
    for _ in range(LOADS):
        context = await browser.new_context()  # an empty cache
        page = await context.new_page()
        await page.add_init_script(ROWS)
        await page.goto(url)
        await page.wait_for_selector("tr[data-revision]")
        found.append(await page.evaluate(COST))
        await context.close()
    one = found[0]
    print(f"{one['files']} files, {one['wire']:,} bytes on the wire, {one['plain']:,} unpacked")
    for what, key in (("first contentful paint", "paint"), ("first revision shown", "rows")):
        print(f"{what}: {median(each[key] for each in found):.0f} ms, the median of {LOADS}")


async def main() -> None:
    if shutil.which(PALETTE) is None:
        raise SystemExit(f"{PALETTE} is missing; on Debian: apt-get install {PALETTE}")
    with TemporaryDirectory(prefix="activator-screenshots-") as folder:
        async with chromium() as browser, traffic(Path(folder)) as playing:
            of_scaler = await scaler(browser, Path(folder))
            host, port = await playing.activator.address("admin")
            url = f"http://{host}:{port}/"
            page = await browser.new_page(viewport=SIZE)
            await page.goto(f"{url}#/revisions/default/{WAKING}")
            await playing.play(PAST)
            await expect(page.locator(".pod-table")).to_be_visible()
            await expect(page.locator("canvas")).to_be_visible()
            taken = await take(page, "revision")
            await page.goto(f"{url}#/")
            await expect(page.locator("tr.waiting")).to_have_count(5)
            taken |= await take(page, "overview")
            await cost(browser, url)
    keep(taken | of_scaler)


if __name__ == "__main__":
    uvloop.run(main())
