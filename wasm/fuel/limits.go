package fuel

// Limits bound what a module may hold. Compiling takes time and memory by these numbers and by some of their
// products, which have limits of their own.
type Limits struct {
	Bytes         int    // of the module
	Types         int    // function types
	Params        int    // parameters of a function type, and results
	TypeValues    int    // parameters and results of all types together
	Imports       int    // imports
	Functions     int    // functions that the module defines
	FunctionBytes int    // code of one function
	Locals        int    // locals of one function, parameters included
	Nesting       int    // blocks within each other
	Branches      int    // labels of one br_table
	Joins         int    // blocks and branches of a function, each label of a br_table counted
	Flow          int    // blocks and branches of a function, times its locals and the values of its blocks
	ModuleFlow    int    // and of all functions together
	Tables        int    // tables
	TableElements int    // elements of all tables together at the start, and of one at any time
	Globals       int    // globals
	Exports       int    // exports
	Segments      int    // data segments, and element segments
	Pages         uint32 // of 64 KiB: the memory at any time. A declared maximum above it is cut
}

// DefaultLimits returns limits that compilers' output stays far below, with 64 MiB of memory.
func DefaultLimits() Limits {
	return Limits{
		Bytes: 32 << 20, Types: 10_000, Params: 128, TypeValues: 50_000, Imports: 256, Functions: 50_000,
		FunctionBytes: 1 << 20, Locals: 5_000, Nesting: 2_000,
		Branches: 10_000, Joins: 20_000, Flow: 2_000_000, ModuleFlow: 8_000_000,
		Tables: 16, TableElements: 200_000, Globals: 2_000, Exports: 1_000, Segments: 100_000, Pages: 1024,
	}
}

// PageSize is the unit of a memory's size.
const PageSize = 64 << 10
