from __future__ import annotations

import socket

from activator.lab.addresses import SHARED_ADDRESS, AddressPool, PodPlace


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def test_pods_get_addresses_of_their_own_and_share_the_port():
    port, admin_port = free_port(), free_port()
    pool = AddressPool("127.0.0.151", port, admin_port)
    first, second = pool.take(), pool.take()
    assert first == PodPlace("127.0.0.151", port, admin_port)
    assert (second.ip, second.port) == ("127.0.0.152", port)
    assert str(first) == f"127.0.0.151:{port}"
    pool.release(first)
    assert pool.take() == first


def test_two_demos_beside_each_other_never_share_an_address():
    pools = [AddressPool("127.0.0.161", free_port(), free_port()) for _ in range(2)]
    taken = [pool.take() for pool in pools * 2]
    assert len({place.ip for place in taken}) == 4
    pools[0].release(taken[0])
    again = pools[1].take()
    assert again.ip == taken[0].ip
    for pool, place in ((pools[0], taken[2]), (pools[1], taken[1]), (pools[1], taken[3])):
        pool.release(place)
    pools[1].release(again)


def test_address_where_something_listens_is_passed_over():
    with socket.create_server(("127.0.0.153", 0)) as taken:
        pool = AddressPool("127.0.0.153", taken.getsockname()[1], free_port())
        assert pool.take().ip == "127.0.0.154"


def test_pods_share_one_address_where_their_own_are_not_to_be_had():
    # 203.0.113.0/24 is for documentation; no machine has it.
    pool = AddressPool("203.0.113.1", free_port(), free_port())
    first, second = pool.take(), pool.take()
    assert first.ip == second.ip == SHARED_ADDRESS
    assert len({first.port, first.admin_port, second.port, second.admin_port}) == 4
