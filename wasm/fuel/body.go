package fuel

import (
	"math"

	"github.com/edgewise-ai/edgewise"
)

// Depth is how deep calls may nest. A function counts one, and one more for every 16 locals: frames are some hundred
// bytes.
const Depth = 16_000

const (
	leafLimit = 64   // units of the largest function that is not charged itself
	bulkConst = 4096 // a constant length up to this is charged with its block
	notLeaf   = -1
)

// survey finds the functions that neither call nor loop and are short, so that their callers can pay for them.
func (m *module) survey() error {
	m.leaf = make([]int32, len(m.bodies))
	m.calls = make([]bool, len(m.bodies))
	m.loops = make([]bool, len(m.bodies))
	for i := range m.bodies {
		cost, err := m.surveyBody(i)
		if err != nil {
			return err
		}
		m.leaf[i] = cost
	}
	return nil
}

// surveyBody returns what a leaf costs, notLeaf for other functions.
func (m *module) surveyBody(i int) (cost int32, err error) {
	s := m.scanner(i)
	s.declared(len(m.funcType(uint32(m.imported + i)).Params))
	last := instruction{}
	for s.depth > 0 && s.r.err == nil {
		in := s.next()
		m.mutates = m.mutates || in.table
		m.loops[i] = m.loops[i] || in.op == opLoop
		m.calls[i] = m.calls[i] || in.op == opCall || in.op == opCallIndir
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
	m.checkFlow(s, len(m.funcType(uint32(m.imported+i)).Results))
	if cost > leafLimit {
		cost = notLeaf
	}
	return cost, s.r.err
}

// checkFlow holds the product of blocks and locals against its limits.
func (m *module) checkFlow(s *scanner, results int) {
	if s.joins > m.limits.Joins {
		s.r.fail(edgewise.TooLarge, "%d blocks and branches, labels of br_table counted: at most %d are allowed", s.joins, m.limits.Joins)
	}
	flow := s.flow(results)
	if flow > m.limits.Flow {
		s.r.fail(edgewise.TooLarge, "%d blocks and branches times %d locals and values of blocks: at most %d are allowed",
			s.joins+1, s.locals+results+s.values, m.limits.Flow)
	}
	if m.flow += flow; m.flow > m.limits.ModuleFlow {
		s.r.fail(edgewise.TooLarge, "blocks and branches times locals, of all functions together, come to %d here: at "+
			"most %d are allowed", m.flow, m.limits.ModuleFlow)
	}
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

// scope is a stretch of code that is charged at once: a function's without its loops, or a loop's without the loops in
// it.
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
	added   int   // locals
	scratch int   // local for lengths; -1: none is needed yet
	fuel    int   // local that holds the counter, in functions with loops: a register is faster than memory; -1: none
	weight  int32 // of the function's frame; 0: it calls nobody, so it is not counted

	lines  []Line // of the instructions to come, as they stand in the body
	placed []Line // of those written, as they stand in out
}

// rewrite returns the body of function i with its charges, without its length, and its source lines.
func (m *module) rewrite(i int) ([]byte, []Line, error) {
	s := m.scanner(i)
	t := m.funcType(uint32(m.imported + i))
	groups, start := s.declared(len(t.Params))
	w := &rewriter{m: m, s: s, scratch: -1, fuel: -1, out: make([]byte, 0, len(s.r.data)*5/4+64)}
	w.lines = within(m.lines, m.offsets[i]-m.code, m.offsets[i]-m.code+len(m.bodies[i]))
	declarations := s.r.data[start:s.r.at]
	w.begin(i, t.Results)
	w.instructions()
	if s.r.err != nil {
		return nil, nil, s.r.err
	}
	if w.wrapped() {
		w.leave()
	}
	body := make([]byte, 0, len(w.out)+len(declarations)+2*padded)
	if w.added > 0 {
		body = append(appendU32(body, uint32(groups+1)), declarations...)
		body = append(appendU32(body, uint32(w.added)), I32)
	} else {
		body = append(appendU32(body, uint32(groups)), declarations...)
	}
	for k := range w.placed {
		w.placed[k].At += uint32(len(body))
	}
	return append(body, w.out...), w.placed, nil
}

// begin writes what stands before the body of function i.
func (w *rewriter) begin(i int, results string) {
	if w.m.loops[i] {
		w.fuel = w.local()
		w.out = appendU32(append(w.out, opGlobalGet), w.counter())
		w.out = appendU32(append(w.out, opLocalSet), uint32(w.fuel))
	}
	if w.m.calls[i] {
		w.weight = int32(1 + w.s.locals/16)
		w.enter()
	}
	if w.wrapped() {
		w.block(results)
	}
	if w.m.leaf[i] != notLeaf {
		w.scopes = []scope{{}}
	} else {
		w.open(0)
	}
}

// wrapped tells whether something has to be done when the function returns.
func (w *rewriter) wrapped() bool { return w.weight > 0 || w.fuel >= 0 }

// local adds a local of type i32.
func (w *rewriter) local() int {
	w.added++
	return w.s.locals + w.added - 1
}

func (w *rewriter) instructions() {
	last := instruction{}
	for w.s.depth > 0 && w.s.r.err == nil {
		in := w.s.next()
		if w.s.r.err != nil {
			return
		}
		w.place(in.start)
		w.cost(in.static + constant(last, in))
		switch {
		case in.op == opCall || in.op == opRefFunc:
			w.call(in)
		case in.op == opCallIndir:
			w.flush()
			w.copy(in)
			w.reload()
		case in.op == opReturn && w.wrapped():
			w.out = appendU32(append(w.out, opBr), uint32(w.s.depth-1))
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

// place notes where the source line of the instruction at start is written, when one begins there.
func (w *rewriter) place(start int) {
	begun := 0
	for begun < len(w.lines) && int(w.lines[begun].At) <= start {
		begun++
	}
	if begun > 0 {
		l := w.lines[begun-1]
		l.At = uint32(len(w.out))
		w.placed, w.lines = append(w.placed, l), w.lines[begun:]
	}
}

func (w *rewriter) copy(in instruction) {
	w.out = append(w.out, w.s.r.data[in.start:w.s.r.at]...)
}

// enter counts a frame and stops the module when calls nest too deep.
func (w *rewriter) enter() {
	w.frame(opI32Sub)
	w.out = appendU32(append(w.out, opGlobalGet), w.depth())
	w.out = append(w.out, opI32Const, 0, opI32LtS, opIf, 0x40, opI32Const)
	w.out = append(w.out, tooDeep...)
	w.out = appendU32(append(w.out, opCall), uint32(w.m.imported))
	w.out = append(w.out, opDrop, opEnd)
}

// block makes the body a block, so that there is one way out: branches to the function's own label lead there as they
// are, and returns become such branches.
func (w *rewriter) block(results string) {
	w.out = append(w.out, opBlock)
	switch len(results) {
	case 0:
		w.out = append(w.out, 0x40)
	case 1:
		w.out = append(w.out, results[0])
	default:
		w.out = appendSigned(w.out, w.m.resultType(results))
	}
}

// flush writes the counter where others find it, and reload reads it again.
func (w *rewriter) flush() {
	if w.fuel >= 0 {
		w.out = appendU32(append(w.out, opLocalGet), uint32(w.fuel))
		w.out = appendU32(append(w.out, opGlobalSet), w.counter())
	}
}

func (w *rewriter) reload() {
	if w.fuel >= 0 {
		w.out = appendU32(append(w.out, opGlobalGet), w.counter())
		w.out = appendU32(append(w.out, opLocalSet), uint32(w.fuel))
	}
}

// leave writes what stands behind the body's block, and ends the function.
func (w *rewriter) leave() {
	w.flush()
	if w.weight > 0 {
		w.frame(opI32Add)
	}
	w.out = append(w.out, opEnd)
}

// frame changes the count of frames.
func (w *rewriter) frame(op byte) {
	w.out = appendU32(append(w.out, opGlobalGet), w.depth())
	w.out = append(appendSigned(append(w.out, opI32Const), int64(w.weight)), op)
	w.out = appendU32(append(w.out, opGlobalSet), w.depth())
}

func (w *rewriter) depth() uint32 { return w.counter() + 1 }

// TooDeep is what the hook gets instead of a counter when calls nest too deep. No counter is as low.
const TooDeep = math.MinInt32

// tooDeep is TooDeep as the format writes it.
var tooDeep = []byte{0x80, 0x80, 0x80, 0x80, 0x78}

// resultType returns the index of a type without parameters, which is added when the module has none such.
func (m *module) resultType(results string) int64 {
	for i, t := range m.types {
		if t.Params == "" && t.Results == results {
			return int64(i)
		}
	}
	for i, r := range m.added {
		if r == results {
			return int64(len(m.types) + 1 + i)
		}
	}
	m.added = append(m.added, results)
	return int64(len(m.types) + len(m.added))
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
	w.remaining()
	w.out = append(w.out, opI32Const)
	at := len(w.out)
	w.out = append(w.out, make([]byte, padded)...)
	w.scopes = append(w.scopes, scope{depth: depth, at: at})
	w.spend()
}

// remaining puts the counter on the stack.
func (w *rewriter) remaining() {
	if w.fuel >= 0 {
		w.out = appendU32(append(w.out, opLocalGet), uint32(w.fuel))
		return
	}
	w.out = appendU32(append(w.out, opGlobalGet), w.counter())
}

// spend subtracts what is on the stack from the counter below it and calls the host when nothing is left.
func (w *rewriter) spend() {
	counter := w.counter()
	w.out = append(w.out, opI32Sub)
	if w.fuel >= 0 {
		w.out = appendU32(append(w.out, opLocalTee), uint32(w.fuel))
	} else {
		w.out = appendU32(append(w.out, opGlobalSet), counter)
		w.remaining()
	}
	w.out = append(w.out, opI32Const, 0, opI32LtS, opIf, 0x40)
	w.remaining()
	w.out = appendU32(append(w.out, opCall), uint32(w.m.imported))
	w.out = appendU32(append(w.out, opGlobalSet), counter)
	w.reload()
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

// call copies a call or a reference with the function's new index. A leaf's cost is its caller's, and it leaves the
// counter alone.
func (w *rewriter) call(in instruction) {
	own := int(in.index) - w.m.imported
	leaf := in.op == opRefFunc || own >= 0 && w.m.leaf[own] != notLeaf
	if !leaf {
		w.flush()
	}
	w.out = appendU32(append(w.out, in.op), w.m.shifted(in.index))
	switch {
	case !leaf:
		w.reload()
	case in.op == opCall:
		w.cost(w.m.leaf[own])
	}
}

// length charges an instruction for the length on top of the stack, before it works on it.
func (w *rewriter) length(in instruction) {
	if w.scratch < 0 {
		w.scratch = w.local()
	}
	w.out = appendU32(append(w.out, opLocalTee), uint32(w.scratch))
	w.remaining()
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
		body, lines, err := m.rewrite(i)
		if err != nil {
			return nil, err
		}
		out = appendU32(out, uint32(len(body)))
		for _, l := range lines {
			l.At += uint32(len(out))
			m.placed = append(m.placed, l)
		}
		out = append(out, body...)
		if len(out) > maxGrowth*m.limits.Bytes {
			return nil, edgewise.Errorf("fuel.Rewrite", edgewise.TooLarge,
				"module: its code takes more than %d bytes after rewriting", maxGrowth*m.limits.Bytes)
		}
	}
	return out, nil
}

// maxGrowth bounds the code's size after rewriting, as a multiple of the module's limit.
const maxGrowth = 4
