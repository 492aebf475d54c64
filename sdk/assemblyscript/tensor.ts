// Tensors in place.

import { fail } from "./host";

// The element types, with the numbers of the inference protocol.
export const enum DataType {
  Bool = 1, Uint8, Uint16, Uint32, Uint64, Int8, Int16, Int32, Int64, FP16, FP32, FP64, Bytes, BF16,
}

const typeNames: StaticArray<string> =
  ["?", "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BYTES", "BF16"];

// The name of an element type on the wire.
export function typeName(type: u32): string {
  return type < <u32>typeNames.length ? typeNames[type] : "?";
}

// The element type that T stands for: bool, a number type, or u16 for FP16 and BF16 through Tensor.data.
export function typeOf<T>(): u32 {
  if (idof<Box<T>>() == idof<Box<bool>>()) return DataType.Bool;
  if (isFloat<T>()) return sizeof<T>() == 4 ? DataType.FP32 : DataType.FP64;
  const signed: u32 = isSigned<T>() ? 4 : 0;
  return (sizeof<T>() == 1 ? DataType.Uint8 : sizeof<T>() == 2 ? DataType.Uint16 : sizeof<T>() == 4 ? DataType.Uint32 : DataType.Uint64) + signed;
}
class Box<T> { constructor(public value: T) {} }

// Where the fields of a record are.
// @ts-ignore: decorator
@inline const RECORD: usize = 32;
// @ts-ignore: decorator
@inline const HEAD: usize = 8;

// A tensor: the record of the ABI itself, in place.
export class Tensor {
  constructor(private at: usize) {}

  get name(): string { return String.UTF8.decodeUnsafe(load<u32>(this.at), load<u32>(this.at, 4)); }
  get type(): u32 { return load<u32>(this.at, 8); }
  get rank(): u32 { return load<u32>(this.at, 12); }
  // Pointer to the elements, row-major; the step may write to those of an input.
  get data(): usize { return load<u32>(this.at, 20); }
  // Bytes of the elements.
  get size(): usize { return <usize>load<u64>(this.at, 24); }

  get shape(): i64[] {
    const sizes = new Array<i64>(this.rank);
    for (let i = 0; i < sizes.length; i++) sizes[i] = load<i64>(load<u32>(this.at, 16) + ((<usize>i) << 3));
    return sizes;
  }

  // The elements of a BYTES tensor, in place.
  get elements(): Span[] {
    const all = new Array<Span>(), end = this.data + this.size;
    for (let p = this.data; p + 4 <= end; ) {
      const length = load<u32>(p);
      if (length > end - p - 4) break;
      all.push(new Span(p + 4, length));
      p += 4 + length;
    }
    return all;
  }
}

// Bytes somewhere in memory.
export class Span {
  constructor(public at: usize, public length: u32) {}
  toString(): string { return String.UTF8.decodeUnsafe(this.at, this.length); }
}

// The elements of a tensor as T, in place: view[i]. Like the memory itself it is bounded by the module's memory only, so
// keep i below length.
export class View<T> {
  constructor(private tensor: Tensor) {}
  get shape(): i64[] { return this.tensor.shape; }
  get length(): i32 { return <i32>(this.tensor.size / sizeof<T>()); }
  // @ts-ignore: decorator
  @inline @operator("[]") get(i: i32): T { return load<T>(this.tensor.data + <usize>i * sizeof<T>()); }
  // @ts-ignore: decorator
  @inline @operator("[]=") set(i: i32, value: T): void { store<T>(this.tensor.data + <usize>i * sizeof<T>(), value); }
  // Pointer to element i.
  pointer(i: i32): usize { return this.tensor.data + <usize>i * sizeof<T>(); }
}

// The inputs of a step, or the outputs of another model.
export class List {
  constructor(private at: usize) {}

  get count(): u32 { return load<u32>(this.at); }
  tensor(i: u32): Tensor { return new Tensor(this.at + HEAD + i * RECORD); }

  // The tensor called name, null, without fail, when there is none: for optional inputs.
  find(name: string): Tensor | null {
    for (let i: u32 = 0; i < this.count; i++) {
      const t = this.tensor(i);
      if (t.name == name) return t;
    }
    return null;
  }

  // The tensor called name, whose elements must be T; null after fail.
  get<T>(name: string): View<T> | null {
    const t = this.find(name);
    if (t == null) { fail(`input "${name}" is missing`); return null; }
    if (t.type != typeOf<T>()) {
      fail(`input "${name}" is ${typeName(t.type)}: want ${typeName(typeOf<T>())}`);
      return null;
    }
    return new View<T>(t);
  }

  // The elements of the BYTES tensor called name; null after fail.
  getBytes(name: string): Span[] | null {
    const t = this.find(name);
    if (t == null) { fail(`input "${name}" is missing`); return null; }
    if (t.type != DataType.Bytes) { fail(`input "${name}" is ${typeName(t.type)}: want BYTES`); return null; }
    return t.elements;
  }
}

// The outputs of a step, or the inputs for another model. It keeps its elements alive.
export class Outputs {
  private names: ArrayBuffer[] = [];
  private types: u32[] = [];
  private shapes: StaticArray<i64>[] = [];
  private data: usize[] = [];
  private sizes: usize[] = [];
  private owners: usize[] = [];

  // Adds a tensor of the elements of values, which are not copied.
  add<T>(name: string, shape: i64[], values: StaticArray<T>): Outputs {
    this.owners.push(__pin(changetype<usize>(values)));
    return this.place(name, typeOf<T>(), shape, changetype<usize>(values), <usize>values.length * sizeof<T>());
  }

  // Adds a tensor of any type whose elements lie at data until the request ends, size bytes.
  place(name: string, type: u32, shape: i64[], data: usize, size: usize): Outputs {
    this.names.push(String.UTF8.encode(name));
    this.types.push(type);
    this.shapes.push(StaticArray.fromArray<i64>(shape));
    this.data.push(data);
    this.sizes.push(size);
    return this;
  }

  // Adds a BYTES tensor of strings.
  addStrings(name: string, shape: i64[], elements: string[]): Outputs {
    let size: usize = 0;
    for (let i = 0; i < elements.length; i++) size += 4 + String.UTF8.byteLength(elements[i]);
    const block = new StaticArray<u8>(<i32>size);
    let p = changetype<usize>(block);
    for (let i = 0; i < elements.length; i++) {
      const n = String.UTF8.byteLength(elements[i]);
      store<u32>(p, n);
      String.UTF8.encodeUnsafe(changetype<usize>(elements[i]), elements[i].length, p + 4);
      p += 4 + n;
    }
    this.owners.push(__pin(changetype<usize>(block)));
    return this.place(name, DataType.Bytes, shape, changetype<usize>(block), size);
  }

  // Writes the list as the ABI has it and returns where. It stays there while the object is pinned.
  encode(): StaticArray<u8> {
    const block = new StaticArray<u8>(<i32>(HEAD + RECORD * this.names.length));
    const at = changetype<usize>(block);
    store<u32>(at, this.names.length);
    for (let i = 0; i < this.names.length; i++) {
      const record = at + HEAD + RECORD * i;
      store<u32>(record, changetype<usize>(this.names[i]));
      store<u32>(record, this.names[i].byteLength, 4);
      store<u32>(record, this.types[i], 8);
      store<u32>(record, this.shapes[i].length, 12);
      store<u32>(record, changetype<usize>(this.shapes[i]), 16);
      store<u32>(record, this.data[i], 20);
      store<u64>(record, this.sizes[i], 24);
    }
    return block;
  }

  // Lets the elements go.
  free(): void {
    for (let i = 0; i < this.owners.length; i++) __unpin(this.owners[i]);
  }
}
