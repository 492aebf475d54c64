package fuel

import (
	"math"

	"github.com/edgewise-ai/edgewise"
)

const (
	leafLimit = 64   // units of the largest function that is not charged itself
	bulkConst = 4096 // a constant length up to this is charged with its block
	notLeaf   = -1
)

// survey finds the functions that neither call nor loop and are short, so that their callers can pay for them.
func (m *module) survey() error {
	m.leaf = make([]int32, len(m.bodies))
	for i := range m.bodies {
		cost, err := m.surveyBody(i)
		if err != nil {
			return err
		}
		m.leaf[i] = cost
	}
	return nil
}

func (m *module) surveyBody(i int) (cost int32, err error) {
	s := m.scanner(i)
	s.declared(len(m.funcType(uint32(m.imported + i)).Params))
	last := instruction{}
	for s.depth > 0 && s.r.err == nil {
		in := s.next()
		m.mutates = m.mutates || in.table
		switch {
		case in.op == opLoop || in.op == opCall || in.op == opCallIndir || in.bulk && !small(last, in):
			cost = notLeaf
		case cost != notLeaf:
			cost += in.static + constant(last, in)
		}
		last = in
	}
	if s.r.more() {
		s.r.invalid("%d bytes are left over behind the body's end", len(s.r.data)-s.r.at)
	}
	if cost > leafLimit {
		cost = notLeaf
	}
	return cost, s.r.err
}

func (m *module) scanner(i int) *scanner {
	r := &reader{data: m.bodies[i], base: m.offsets[i], what: "code of function " + m.label(i)}
	return &scanner{r: r, m: m}
}

// small tells whether in works on a small length that is a constant, which last put on the stack.
func small(last, in instruction) bool {
	return in.bulk && in.op == opMisc && last.op == opI32Const && last.index <= bulkConst
}

// constant returns the units that a small length costs.
func constant(last, in instruction) int32 {
	if small(last, in) {
		return int32(last.index >> in.shift)
	}
	return 0
}

// scope is a stretch of code that is charged at once: a function's without its loops, or a loop's without the loops in it.
type scope struct {
	depth int   // of the block that opened it
	cost  int32 // so far
	at    int   // of the number to fill in; 0: none
}

// rewriter writes one body.
type rewriter struct {
	m       *module
	s       *scanner
	out     []byte
	scopes  []scope
	scratch int // local for lengths; -1: none is needed yet
}

// rewrite returns the body of function i with its charges, without its length.
func (m *module) rewrite(i int) ([]byte, error) {
	s := m.scanner(i)
	groups, start := s.declared(len(m.funcType(uint32(m.imported + i)).Params))
	w := &rewriter{m: m, s: s, scratch: -1, out: make([]byte, 0, len(s.r.data)*5/4+64)}
	declarations := s.r.data[start:s.r.at]
	if m.leaf[i] != notLeaf {
		w.scopes = []scope{{}}
	} else {
		w.open(0)
	}
	w.instructions()
	if s.r.err != nil {
		return nil, s.r.err
	}
	body := make([]byte, 0, len(w.out)+len(declarations)+2*padded)
	if w.scratch >= 0 {
		body = append(appendU32(body, uint32(groups+1)), declarations...)
		body = append(appendU32(body, 1), I32)
	} else {
		body = append(appendU32(body, uint32(groups)), declarations...)
	}
	return append(body, w.out...), nil
}

func (w *rewriter) instructions() {
	last := instruction{}
	for w.s.depth > 0 && w.s.r.err == nil {
		in := w.s.next()
		if w.s.r.err != nil {
			return
		}
		w.cost(in.static + constant(last, in))
		switch {
		case in.op == opCall || in.op == opRefFunc:
			w.call(in)
		case in.bulk && !small(last, in):
			w.length(in)
			w.copy(in)
		case in.op == opLoop:
			w.copy(in)
			w.open(w.s.depth)
		case in.op == opEnd:
			w.copy(in)
			w.close()
		default:
			w.copy(in)
		}
		last = in
	}
}

func (w *rewriter) copy(in instruction) {
	w.out = append(w.out, w.s.r.data[in.start:w.s.r.at]...)
}

// cost adds units to what the present scope is charged.
func (w *rewriter) cost(units int32) {
	s := &w.scopes[len(w.scopes)-1]
	if s.cost < math.MaxInt32>>3 {
		s.cost += units
	}
}

// open begins a scope with its charge, to be filled in when the scope closes.
func (w *rewriter) open(depth int) {
	w.out = appendU32(append(w.out, opGlobalGet), w.counter())
	w.out = append(w.out, opI32Const)
	at := len(w.out)
	w.out = append(w.out, make([]byte, padded)...)
	w.scopes = append(w.scopes, scope{depth: depth, at: at})
	w.spend()
}

// spend subtracts what is on the stack and calls the host when nothing is left.
func (w *rewriter) spend() {
	counter := w.counter()
	w.out = appendU32(append(w.out, opI32Sub, opGlobalSet), counter)
	w.out = appendU32(append(w.out, opGlobalGet), counter)
	w.out = append(w.out, opI32Const, 0, opI32LtS, opIf, 0x40)
	w.out = appendU32(append(w.out, opGlobalGet), counter)
	w.out = appendU32(append(w.out, opCall), uint32(w.m.imported))
	w.out = appendU32(append(w.out, opGlobalSet), counter)
	w.out = append(w.out, opEnd)
}

func (w *rewriter) counter() uint32 { return uint32(len(w.m.globals)) }

// close ends the scopes whose block has just ended, and fills in their charges.
func (w *rewriter) close() {
	s := w.scopes[len(w.scopes)-1]
	if s.depth != w.s.depth+1 && w.s.depth != 0 {
		return
	}
	if s.at > 0 {
		putPadded(w.out[s.at:], max(s.cost, 1))
	}
	w.scopes = w.scopes[:len(w.scopes)-1]
}

// call copies a call or a reference with the function's new index. A leaf's cost is its caller's.
func (w *rewriter) call(in instruction) {
	w.out = appendU32(append(w.out, in.op), w.m.shifted(in.index))
	if own := int(in.index) - w.m.imported; in.op == opCall && own >= 0 && w.m.leaf[own] != notLeaf {
		w.cost(w.m.leaf[own])
	}
}

// length charges an instruction for the length on top of the stack, before it works on it.
func (w *rewriter) length(in instruction) {
	if w.scratch < 0 {
		w.scratch = w.s.locals
	}
	w.out = appendU32(append(w.out, opLocalTee), uint32(w.scratch))
	w.out = appendU32(append(w.out, opGlobalGet), w.counter())
	w.out = appendU32(append(w.out, opLocalGet), uint32(w.scratch))
	w.out = append(appendU32(append(w.out, opI32Const), in.shift), opI32ShrU)
	w.spend()
}

// rewriteCode returns the code section.
func (m *module) rewriteCode() ([]byte, error) {
	if err := m.survey(); err != nil {
		return nil, err
	}
	out := appendU32(nil, uint32(len(m.bodies)))
	for i := range m.bodies {
		body, err := m.rewrite(i)
		if err != nil {
			return nil, err
		}
		out = append(appendU32(out, uint32(len(body))), body...)
		if len(out) > maxGrowth*m.limits.Bytes {
			return nil, edgewise.Errorf("fuel.Rewrite", edgewise.TooLarge, "module: its code takes more than %d bytes after rewriting", maxGrowth*m.limits.Bytes)
		}
	}
	return out, nil
}

// maxGrowth bounds the code's size after rewriting, as a multiple of the module's limit.
const maxGrowth = 4
