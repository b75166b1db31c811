"""An exception that the function raises is raised here, as itself, with its cause and the traceback of the node."""

import gridweave as gw
from orders import Order, OutOfStock, Size  # a module beside this file: it travels along


@gw.function(vram="1GB")
def pack(order: Order) -> Order:
    stock = {Size.SMALL: 3}
    try:
        left = stock[order.size] - order.count
    except KeyError as error:
        raise OutOfStock(order.size) from error
    print("packing", order.count, "leaves", left)
    return order.packed()


if __name__ == "__main__":
    packed = pack.remote(Order(Size.SMALL, 2))
    print("equal to what is made here:", packed == Order(Size.SMALL, 2).packed())
    try:
        pack.remote(Order(Size.LARGE, 1))
    except OutOfStock as error:
        print(f"caught {type(error).__name__}: {error}; its cause was {type(error.__cause__).__name__}")
        print(*error.__notes__, sep="\n")
