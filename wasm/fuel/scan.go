package fuel

import "github.com/edgewise-ai/edgewise"

// instruction is one decoded instruction. Its bytes are r.data[start:r.at].
type instruction struct {
	op     byte
	sub    uint32 // of prefixed instructions
	index  uint32 // function of a call or ref.func; the constant of i32.const, as bits
	start  int
	table  bool   // it changes a table, or drops a segment
	bulk   bool   // it works on a length, which is on top of the stack
	shift  uint32 // 1<<shift of that length cost a unit
	static int32  // units
}

// scanner decodes the instructions of a body.
type scanner struct {
	r      *reader
	m      *module
	locals int // with parameters
	depth  int // open blocks, the body itself included
	joins  int // blocks and branches so far, each label of a br_table counted
	values int // parameters and results of the block that has most of them
	passed int // parameters and results of all calls so far
}

// declared reads the declarations of locals. The reader stands behind their count then; start is where the first group
// begins.
func (s *scanner) declared(params int) (groups int, start int) {
	s.locals = params
	groups = s.r.count("groups of locals", s.m.limits.Locals)
	start = s.r.at
	for range groups {
		n := s.r.u32()
		s.r.byte()
		if s.r.err == nil && int64(n)+int64(s.locals) > int64(s.m.limits.Locals) {
			s.r.fail(edgewise.TooLarge, "%d locals: at most %d are allowed", int64(n)+int64(s.locals), s.m.limits.Locals)
			return 0, start
		}
		s.locals += int(n)
	}
	s.depth = 1
	return groups, start
}

// flow is what the compiler's work on a body grows with: wherever control may come from two places, it looks at every
// local and at the values of the blocks.
func (s *scanner) flow(results int) int {
	return (s.joins+1)*(s.locals+results+s.values) + s.passed
}

// next decodes one instruction. It follows the nesting: the body has ended when depth is 0.
func (s *scanner) next() instruction {
	r := s.r
	in := instruction{start: r.at, static: 1}
	in.op = r.byte()
	if in.op >= opBlock && in.op <= opBrIf && in.op != opEnd {
		s.joins++
	}
	switch forms[in.op] {
	case formNone:
		if in.op == opEnd {
			s.depth--
		}
	case formBlock:
		s.block()
	case formLabel:
		r.index("label", s.depth)
	case formLocal:
		r.index("local", s.locals)
	case formGlobal:
		r.index("global", len(s.m.globals))
	case formTable:
		r.index("table", s.m.tables)
		in.table = in.op == opTableSet
	case formAccess:
		s.access()
	case formZero:
		s.zero()
		in.bulk, in.shift = in.op == opMemoryGrow, 2
	case formOther:
		s.other(&in)
	default:
		s.unknown(in, uint32(in.op))
	}
	return in
}

func (s *scanner) unknown(in instruction, code uint32) {
	if s.r.err == nil {
		s.r.at = in.start
		s.r.invalid("instruction 0x%02x %d is not part of WebAssembly 2.0", in.op, code)
	}
}

func (s *scanner) block() {
	t := s.r.signed(33)
	if s.r.err == nil && t >= int64(len(s.m.types)) {
		s.r.invalid("type %d does not exist: there are %d", t, len(s.m.types))
	}
	if s.r.err == nil && t >= 0 {
		s.values = max(s.values, s.m.types[t].size())
	}
	if s.depth++; s.r.err == nil && s.depth > s.m.limits.Nesting {
		s.r.fail(edgewise.TooLarge, "more than %d blocks within each other", s.m.limits.Nesting)
	}
}

func (s *scanner) access() {
	if s.r.err == nil && s.m.memories == 0 {
		s.r.invalid("there is no memory")
	}
	s.r.u32()
	s.r.u32()
}

func (s *scanner) zero() {
	if b := s.r.byte(); s.r.err == nil && (b != 0 || s.m.memories == 0) {
		s.r.invalid("there is no memory %d", b)
	}
}

func (s *scanner) other(in *instruction) {
	r := s.r
	switch in.op {
	case opBrTable:
		n := r.count("labels", s.m.limits.Branches)
		for range n + 1 {
			r.index("label", s.depth)
		}
		s.joins += n + 1
	case opCall, opRefFunc:
		in.index = r.index("function", len(s.m.funcs))
		if r.err == nil && in.op == opCall {
			s.passed += s.m.funcType(in.index).size()
		}
	case opCallIndir:
		if t := r.index("type", len(s.m.types)); r.err == nil {
			s.passed += s.m.types[t].size()
		}
		r.index("table", s.m.tables)
	case opSelectType:
		r.bytes(r.count("types", s.m.limits.Params))
	case opI32Const:
		in.index = uint32(r.signed(32))
	case opI64Const:
		r.signed(64)
	case opF32Const:
		r.bytes(4)
	case opF64Const:
		r.bytes(8)
	case opRefNull:
		r.byte()
	case opMisc:
		s.misc(in)
	case opVector:
		in.sub = r.u32()
		access, plain, known := vectorForm(in.sub)
		if !known {
			s.unknown(*in, in.sub)
		}
		if access {
			s.access()
		}
		r.bytes(plain)
	}
}

// misc decodes the instructions behind 0xfc.
func (s *scanner) misc(in *instruction) {
	in.sub = s.r.u32()
	if int64(in.sub) >= int64(len(miscForms)) {
		s.unknown(*in, in.sub)
		return
	}
	f := miscForms[in.sub]
	for _, immediate := range f.immediates {
		switch immediate {
		case 'd':
			if s.r.err == nil && s.m.data < 0 {
				s.r.invalid("a data segment is used without a data count section")
			}
			s.r.index("data segment", s.m.data)
		case 'e':
			s.r.index("element segment", s.m.segments)
		case 't':
			s.r.index("table", s.m.tables)
		case 'm':
			s.zero()
		}
	}
	in.bulk, in.shift, in.table = f.shift > 0, f.shift, f.table
}
