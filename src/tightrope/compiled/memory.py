"""Memory that compiled code reads: blocks of named arrays, and records of arrays in them.

A block starts with a table. An entry is three 64-bit numbers: an array's offset from the block's
start, its rows, its columns. In compiled code a block is only its address, a record two addresses,
and a *vector*, one field of a record, an address and a length. Reads of the table count as
constant, so LLVM moves them out of loops. numba's own tuples of arrays hold seven numbers per
array, which take two thirds of the time to compile a policy with thirty of them.

A vector is indexed from 0 without a check; numba would allow for negative indices. A slice of one,
``vector[at : at + 8]``, must have eight numbers and is a value, not a view: a register of a
processor, with sums, differences and products. LLVM would not make registers of eight variables,
and for a loop over eight numbers it checks each time whether the arrays overlap.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Annotated, Any, get_origin, get_type_hints

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import lower_builtin, lower_getattr_generic
from numba.core.typing.templates import (
    AbstractTemplate,
    AttributeTemplate,
    infer_getattr,
    infer_global,
    signature,
)
from numba.extending import intrinsic, models, register_model
from numba.np import arrayobj
from numba.np.numpy_support import from_dtype

from tightrope.compiled.faster import Plain

WORD = ir.IntType(64)
EIGHT = 8  # numbers in a slice


# The content of a block, by name.


@dataclass(frozen=True)
class Vector:
    """The array of an entry, flat, as a vector."""

    entry: int
    dtype: type


@dataclass(frozen=True)
class Array:
    """The array of an entry as one of numba's arrays, or as a tuple of ``count`` numbers.

    It is flat, or has the entry's ``rows`` and columns.
    """

    entry: int
    dtype: type
    count: int = 0
    rows: bool = False


@dataclass(frozen=True)
class RecordPart:
    """A record of float64 arrays in the array of an entry; another entry has their offsets.

    ``arrays``: its fields are numba's arrays instead of vectors, for functions of users.
    """

    entry: int
    starts: int
    record: type
    dtype: type = np.float64
    arrays: bool = False


@dataclass(frozen=True)
class Number:
    """An integer that does not change during a call: number ``at`` of an entry's array."""

    entry: int
    at: int


@dataclass(frozen=True)
class Fixed:
    """An integer that is known at compile time."""

    value: int


@dataclass(frozen=True)
class Given:
    """An integer passed together with the block's address, number ``at`` of them."""

    at: int


Part = Vector | Array | RecordPart | Number | Fixed | Given


class VectorType(types.Type, Plain):  # type: ignore[misc]
    """The type of a vector."""

    def __init__(self, element: Any) -> None:
        self.element = element
        super().__init__(f"Vector({element})")


class SliceType(types.Type):  # type: ignore[misc]
    """The type of a slice."""

    def __init__(self) -> None:
        super().__init__("Slice")


SLICE = SliceType()


class RecordType(types.Type):  # type: ignore[misc]
    """The type of a record whose first field is number ``first`` in the offsets."""

    def __init__(self, record: type, first: int, element: Any, arrays: bool) -> None:
        self.record, self.first, self.element, self.arrays = record, first, element, arrays
        shape = sha256(repr([*_flat(record)]).encode()).hexdigest()[:8]  # a name stands for it
        name = f"{record.__module__}.{record.__qualname__}"
        super().__init__(f"RecordPart({name},{shape},{first},{element},{arrays})")

    @property
    def fields(self) -> dict[str, tuple[Any, int]]:
        """The type of every field, and its number in the offsets."""
        return _fields(self.record, self.first, self.element, self.arrays)


@cache
def _fields(record: type, first: int, element: Any, arrays: bool) -> dict[str, tuple[Any, int]]:
    """The fields of a :class:`RecordType`; numba asks for them whenever code reads one."""
    found, at = {}, first
    leaf = types.Array(element, 1, "C") if arrays else VectorType(element)
    for name, hint in get_type_hints(record, include_extras=True).items():
        if get_origin(hint) is Annotated:
            found[name], at = (leaf, at), at + 1
        else:
            found[name] = RecordType(hint, at, element, arrays), at
            at += len(_flat(hint))
    return found


@cache
def _flat(record: type) -> list[str]:
    """The names of a record's arrays, in order."""
    found = []
    for name, hint in get_type_hints(record, include_extras=True).items():
        leaf = get_origin(hint) is Annotated
        found += [name] if leaf else [f"{name}.{inner}" for inner in _flat(hint)]
    return found


class BlockType(types.Type):  # type: ignore[misc]
    """The type of a block."""

    def __init__(self, parts: tuple[tuple[str, Part], ...]) -> None:
        self.parts = dict(parts)
        self.given = sum(isinstance(one, Given) for one in self.parts.values())
        super().__init__(
            f"Block({', '.join(f'{name}: {_kind(one)} {one}' for name, one in parts)})"
        )


def _kind(part: Part) -> Any:
    """The type of a part."""
    if isinstance(part, Number | Fixed | Given):
        return types.int64
    element = from_dtype(np.dtype(part.dtype))
    if isinstance(part, RecordPart):
        return RecordType(part.record, 0, element, part.arrays)
    if isinstance(part, Vector):
        return VectorType(element)
    if part.count:
        return types.UniTuple(element, part.count)
    return types.Array(element, 1 + part.rows, "C")


@register_model(VectorType)
class _VectorModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: VectorType) -> None:
        members = [("data", types.CPointer(kind.element)), ("size", types.int64)]
        super().__init__(manager, kind, members)


@register_model(SliceType)
class _SliceModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: SliceType) -> None:
        super().__init__(manager, kind, ir.VectorType(ir.DoubleType(), EIGHT))


@register_model(RecordType)
class _RecordModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: RecordType) -> None:
        pointers = types.CPointer(kind.element), types.CPointer(types.int64)
        super().__init__(manager, kind, list(zip(("block", "starts"), pointers, strict=True)))


@register_model(BlockType)
class _BlockModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: BlockType) -> None:
        names = ("address", *(f"given_{at}" for at in range(kind.given)))
        super().__init__(manager, kind, [(name, types.int64) for name in names])


def _load(builder: Any, pointer: Any, at: int) -> Any:
    """Read number ``at``, which is always the same."""
    value = builder.load(builder.gep(pointer, [WORD(at)]))
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


def _behind(builder: Any, address: Any, entry: int, element: Any) -> tuple[Any, Any, Any]:
    """A pointer to the array of an entry, its rows and its columns."""
    table = builder.inttoptr(address, WORD.as_pointer())
    offset, rows, columns = (_load(builder, table, 3 * entry + at) for at in range(3))
    pointer = builder.inttoptr(builder.add(address, offset), element.as_pointer())
    return pointer, rows, columns


def _made(context: Any, builder: Any, kind: Any, data: Any, *shape: Any) -> Any:
    """A vector, or an array of numba's."""
    if isinstance(kind, VectorType):
        vector = cgutils.create_struct_proxy(kind)(context, builder)
        vector.data, [vector.size] = data, shape
        return vector._getvalue()
    step = WORD(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    array = arrayobj.make_array(kind)(context, builder)
    strides = [builder.mul(shape[-1], step), step][-len(shape) :]
    arrayobj.populate_array(
        array, data=data, shape=[*shape], strides=strides, itemsize=step, meminfo=None
    )
    return array._getvalue()


@infer_getattr
class _BlockAttributes(AttributeTemplate):  # type: ignore[misc]
    key = BlockType

    def generic_resolve(self, block: BlockType, name: str) -> Any:
        if name == "address":
            return types.int64
        return _kind(block.parts[name]) if name in block.parts else None


@lower_getattr_generic(BlockType)  # type: ignore[untyped-decorator]
def _part_of(context: Any, builder: Any, block: BlockType, value: Any, name: str) -> Any:
    address = builder.extract_value(value, 0)
    if name == "address":
        return address
    part = block.parts[name]
    if isinstance(part, Given):
        return builder.extract_value(value, 1 + part.at)
    if isinstance(part, Fixed):
        return WORD(part.value)
    if isinstance(part, Number):
        return _load(builder, _behind(builder, address, part.entry, WORD)[0], part.at)
    kind = _kind(part)
    element = context.get_data_type(from_dtype(np.dtype(part.dtype)))
    data, *shape = _behind(builder, address, part.entry, element)
    if isinstance(part, RecordPart):
        record = cgutils.create_struct_proxy(kind)(context, builder)
        record.block, record.starts = data, _behind(builder, address, part.starts, WORD)[0]
        return record._getvalue()
    if isinstance(kind, types.UniTuple):
        items = [builder.load(builder.gep(data, [WORD(at)])) for at in range(kind.count)]
        return context.make_tuple(builder, kind, items)
    if not (isinstance(part, Array) and part.rows):
        shape = [builder.mul(*shape)]
    return _made(context, builder, kind, data, *shape)


@infer_getattr
class _RecordAttributes(AttributeTemplate):  # type: ignore[misc]
    key = RecordType

    def generic_resolve(self, record: RecordType, name: str) -> Any:
        return record.fields[name][0] if name in record.fields else None


@lower_getattr_generic(RecordType)  # type: ignore[untyped-decorator]
def _field_of(context: Any, builder: Any, record: RecordType, value: Any, name: str) -> Any:
    kind, at = record.fields[name]
    if isinstance(kind, RecordType):
        return value
    block, starts = builder.extract_value(value, 0), builder.extract_value(value, 1)
    start, end = _load(builder, starts, at), _load(builder, starts, at + 1)
    return _made(context, builder, kind, builder.gep(block, [start]), builder.sub(end, start))


@infer_global(len)
class _Length(AbstractTemplate):  # type: ignore[misc]
    def generic(self, given: Any, _named: Any) -> Any:
        return signature(types.int64, *given) if isinstance(given[0], VectorType) else None


@lower_builtin(len, VectorType)  # type: ignore[untyped-decorator]
def _length(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
    return builder.extract_value(given[0], 1)


@infer_global(operator.getitem)
class _Reading(AbstractTemplate):  # type: ignore[misc]
    def generic(self, given: Any, _named: Any) -> Any:
        vector, place = given
        if isinstance(vector, VectorType) and isinstance(place, types.Integer):
            return signature(vector.element, vector, types.int64)
        if isinstance(vector, VectorType) and isinstance(place, types.SliceType):
            return signature(SLICE, vector, place)
        if isinstance(vector, SliceType) and isinstance(place, types.Integer):
            return signature(types.float64, vector, types.int64)
        return None


@lower_builtin(operator.getitem, VectorType, types.Integer)  # type: ignore[untyped-decorator]
def _read(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
    return builder.load(builder.gep(builder.extract_value(given[0], 0), [given[1]]))


@infer_global(operator.setitem)
class _Writing(AbstractTemplate):  # type: ignore[misc]
    def generic(self, given: Any, _named: Any) -> Any:
        vector, place, _ = given
        if isinstance(vector, VectorType) and isinstance(place, types.Integer):
            return signature(types.none, vector, types.int64, vector.element)
        if isinstance(vector, VectorType) and isinstance(place, types.SliceType):
            return signature(types.none, vector, place, SLICE)
        return None


@lower_builtin(operator.setitem, VectorType, types.Integer, types.Any)  # type: ignore[untyped-decorator]
def _write(context: Any, builder: Any, _signature: Any, given: Any) -> Any:
    builder.store(given[2], builder.gep(builder.extract_value(given[0], 0), [given[1]]))
    return context.get_dummy_value()


def _sliced(context: Any, builder: Any, kind: Any, vector: Any, place: Any) -> Any:
    """A pointer to the numbers of a slice."""
    start = context.make_helper(builder, kind, place).start
    pointer = builder.gep(builder.extract_value(vector, 0), [start])
    return builder.bitcast(pointer, ir.VectorType(ir.DoubleType(), EIGHT).as_pointer())


@lower_builtin(operator.getitem, VectorType, types.SliceType)  # type: ignore[untyped-decorator]
def _read_slice(context: Any, builder: Any, called: Any, given: Any) -> Any:
    return builder.load(_sliced(context, builder, called.args[1], *given), align=EIGHT)


@lower_builtin(operator.setitem, VectorType, types.SliceType, SliceType)  # type: ignore[untyped-decorator]
def _write_slice(context: Any, builder: Any, called: Any, given: Any) -> Any:
    to = _sliced(context, builder, called.args[1], *given[:2])
    builder.store(given[2], to, align=EIGHT)
    return context.get_dummy_value()


@lower_builtin(operator.getitem, SliceType, types.Integer)  # type: ignore[untyped-decorator]
def _one_of_slice(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
    return builder.extract_element(*given)


def _with_slices(operation: Any, name: str) -> None:
    """Teach numba an operation of two slices, or of a slice and a number."""

    class Typed(AbstractTemplate):  # type: ignore[misc]
        def generic(self, given: Any, _named: Any) -> Any:
            sliced = [isinstance(one, SliceType) for one in given]
            may = any(sliced) and all(one in (SLICE, types.float64) for one in given)
            return signature(SLICE, *given) if may else None

    def generate(_context: Any, builder: Any, called: Any, given: Any) -> Any:
        pairs = zip(called.args, given, strict=True)
        return getattr(builder, name)(*(_spread(builder, *pair) for pair in pairs))

    infer_global(operation)(Typed)
    for pair in ((SliceType, SliceType), (SliceType, types.Float), (types.Float, SliceType)):
        lower_builtin(operation, *pair)(generate)


def _spread(builder: Any, kind: Any, value: Any) -> Any:
    """A number eight times; a slice as it is."""
    if isinstance(kind, SliceType):
        return value
    none = ir.Constant(ir.VectorType(ir.DoubleType(), EIGHT), ir.Undefined)
    places = ir.Constant(ir.VectorType(ir.IntType(32), EIGHT), [0] * EIGHT)
    return builder.shuffle_vector(builder.insert_element(none, value, WORD(0)), none, places)


_with_slices(operator.add, "fadd")
_with_slices(operator.sub, "fsub")
_with_slices(operator.mul, "fmul")


@cache
def _block_type(parts: tuple[tuple[str, Part], ...]) -> BlockType:
    return BlockType(parts)


def memory_at(parts: Mapping[str, Part]) -> Any:
    """For compiled code: a function from a block's address to the block, with named parts.

    If some are :class:`Given`, its arguments are the address and a tuple of those.
    """
    kind = _block_type(tuple(parts.items()))

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        block = cgutils.create_struct_proxy(kind)(context, builder)
        block.address = arguments[0]
        for at in range(kind.given):
            setattr(block, f"given_{at}", builder.extract_value(arguments[1], at))
        return block._getvalue()

    if kind.given:

        @intrinsic  # type: ignore[untyped-decorator]
        def block_and_more(_context: Any, address: Any, given: Any) -> Any:
            return kind(types.int64, types.UniTuple(types.int64, kind.given)), generate

        return block_and_more

    @intrinsic  # type: ignore[untyped-decorator]
    def block(_context: Any, address: Any) -> Any:
        return kind(types.int64), generate

    return block


@intrinsic  # type: ignore[untyped-decorator]
def four_at(_context: Any, address: Any) -> Any:
    """For compiled code: the four integers at an address."""
    kind = types.UniTuple(types.int64, 4)

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], WORD.as_pointer())
        return context.make_tuple(builder, kind, [_load(builder, pointer, at) for at in range(4)])

    return kind(types.int64), generate


def first_of(count: int) -> Any:
    """For compiled code: a function from an array to a tuple of its first ``count`` numbers."""

    @intrinsic  # type: ignore[untyped-decorator]
    def numbers(_context: Any, array: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = arrayobj.make_array(array)(context, builder, arguments[0]).data
            word = context.get_value_type(types.int64)
            items = [builder.load(builder.gep(data, [word(at)])) for at in range(count)]
            return context.make_tuple(builder, signature.return_type, items)

        return types.UniTuple(array.dtype, count)(array), generate

    return numbers
