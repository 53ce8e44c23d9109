"""GDB shows a tensor as its shape and its elements, each under its index (b, h, l, d):

    (gdb) source headwise_gdb.py
    (gdb) print view
    $1 = headwise::tensor_view<float const> (1, 2, 2, 3), strides (12, 3, 6, 1) = {(0, 0, 0, 0) = 1.5, ...

`source` belongs in .gdbinit. `set print elements` says how many are shown.
"""
import itertools

import gdb
import gdb.printing


def four(array):
    """The values of a std::array of four, whatever a standard library calls what is in it."""
    elements = array[array.type.fields()[0]]
    return [int(elements[i]) for i in range(4)]


def tuple_text(values):
    return "(" + ", ".join(str(value) for value in values) + ")"


class TensorPrinter:
    def __init__(self, value):
        self.value = value
        self.shape = four(value["shape_"])
        self.data = value["data_"]

    def strides(self):
        b, h, l, d = self.shape
        return [h * l * d, l * d, d, 1]

    def to_string(self):
        return f"{self.value.type.strip_typedefs().unqualified()} {tuple_text(self.shape)}"

    def children(self):
        strides = self.strides()
        for index in itertools.product(*(range(extent) for extent in self.shape)):
            offset = sum(i * stride for i, stride in zip(index, strides))
            yield tuple_text(index), (self.data + offset).dereference()


class ViewPrinter(TensorPrinter):
    def strides(self):
        return four(self.value["strides_"])

    def to_string(self):
        return f"{super().to_string()}, strides {tuple_text(self.strides())}"


printers = gdb.printing.RegexpCollectionPrettyPrinter("headwise")
printers.add_printer("tensor", "^headwise::tensor<.*>$", TensorPrinter)
printers.add_printer("tensor_view", "^headwise::tensor_view<.*>$", ViewPrinter)
gdb.printing.register_pretty_printer(gdb.current_objfile(), printers, replace=True)
