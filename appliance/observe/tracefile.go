package observe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/picture"
	"github.com/edgewise-ai/edgewise/scalar"
)

// traceFile writes traces as Triton does: JSON arrays, each whole after every trace. Traces that are counted, or of
// which a number goes into each file, go into files with a number behind the path; all others into the path itself.
type traceFile struct {
	path   string
	logger *slog.Logger

	mu       sync.Mutex // guards what follows
	number   int        // of the next file that has one
	plain    traceArray
	numbered traceArray
}

// traceArray is a file that holds an array of traces.
type traceArray struct {
	file    *os.File // nil: none is open
	written int64
	size    int64 // of the file, without the end of its array
}

// next makes the traces after a change of the settings begin a file of their own, where files are numbered.
func (f *traceFile) next() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.numbered.close()
}

func (a *traceArray) close() {
	if a.file != nil {
		_ = a.file.Close()
		a.file, a.written = nil, 0
	}
}

// write adds one trace. A failure is logged: the request has been answered.
func (f *traceFile) write(r *tracedRequest, end time.Time) {
	text, err := encodeTrace(r, end)
	if err == nil {
		err = f.add(text, r.frequency)
	}
	if err != nil {
		f.logger.Error("a trace cannot be written", "file", f.path, "error", err)
	}
}

const arrayEnd = "\n]\n"

func (f *traceFile) add(text []byte, frequency int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if frequency == 0 {
		return f.plain.add(f.path, text)
	}
	if f.numbered.written >= frequency {
		f.numbered.close()
	}
	path := f.path + "." + strconv.Itoa(f.number)
	if f.numbered.file == nil {
		f.number++
	}
	return f.numbered.add(path, text)
}

// add adds a trace to the array, which is opened at path when it is not.
func (a *traceArray) add(path string, text []byte) error {
	if a.file == nil {
		if err := a.open(path); err != nil {
			return err
		}
	}
	separator := ",\n"
	if a.size == 0 {
		separator = "[\n"
	}
	entry := append([]byte(separator), text...)
	if _, err := a.file.WriteAt(append(entry, arrayEnd...), a.size); err != nil {
		return errors.Join(err, a.mend())
	}
	a.size += int64(len(entry))
	a.written++
	return nil
}

// mend takes back what a write left that a full disk cut short: the array ends where it did before. Where even that
// fails, the next trace opens the file again, and refuses to go on in one that is torn.
func (a *traceArray) mend() error {
	end := ""
	if a.size > 0 {
		end = arrayEnd
	}
	_, err := a.file.WriteAt([]byte(end), a.size) // before the file becomes shorter: this needs no room on the disk
	if err == nil {
		err = a.file.Truncate(a.size + int64(len(end)))
	}
	if err != nil {
		a.close()
	}
	return err
}

// open opens a file, and goes on in one that is there.
func (a *traceArray) open(path string) (err error) {
	if a.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o640); err != nil {
		return err
	}
	info, err := a.file.Stat()
	if err != nil {
		return err
	}
	a.size = max(info.Size()-int64(len(arrayEnd)), 0)
	last := make([]byte, len(arrayEnd))
	if n, err := a.file.ReadAt(last, a.size); a.size > 0 &&
		(err != nil && !errors.Is(err, io.EOF) || string(last[:n]) != arrayEnd) {
		a.close()
		return fmt.Errorf("%s holds something else than traces", path)
	}
	return nil
}

// encodeTrace writes the entries of a trace, separated by commas.
func encodeTrace(r *tracedRequest, end time.Time) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := &traceEncoder{request: r}
	before, after := r.frontendMoments(end)
	e.part(r.root, before, after)
	var b strings.Builder
	for i, entry := range e.entries {
		text, err := json.Marshal(entry)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteString(",\n")
		}
		b.Write(text)
	}
	return []byte(b.String()), nil
}

type traceEncoder struct {
	request *tracedRequest
	entries []any
}

// The entries of a trace.
type (
	traceHead struct {
		ID        uint64 `json:"id"`
		Model     string `json:"model_name"`
		Version   int64  `json:"model_version"`
		RequestID string `json:"request_id,omitempty"`
		Parent    uint64 `json:"parent_id,omitempty"`
	}
	traceTimes struct {
		ID    uint64      `json:"id"`
		Times []traceTime `json:"timestamps"`
	}
	traceTime struct {
		Name string `json:"name"`
		NS   int64  `json:"ns"`
	}
	traceActivity struct {
		ID       uint64       `json:"id"`
		Activity string       `json:"activity"`
		Tensor   tracedTensor `json:"tensor"`
	}
)

func (e *traceEncoder) part(n *traced, before, after []moment) {
	head := traceHead{ID: n.id, Model: n.model.Name, Version: n.model.Version}
	if n.parent != nil {
		head.Parent = n.parent.id
	} else {
		head.RequestID = e.request.start.ID
	}
	e.entries = append(e.entries, head)
	if e.request.timestamps {
		for _, m := range append(append(before, n.moments()...), after...) {
			e.entries = append(e.entries, traceTimes{n.id, []traceTime{{m.name, e.request.tracer.ns(m.at)}}})
		}
	}
	for _, t := range n.tensors {
		e.entries = append(e.entries, traceActivity{n.id, t.activity, t})
	}
	for _, child := range n.children {
		e.part(child, nil, nil)
	}
}

// tracedTensor is a tensor as it was when it was noted.
type tracedTensor struct {
	activity string
	Name     string `json:"name"`
	Data     string `json:"data"`
	Shape    string `json:"shape"`
	Type     string `json:"dtype"`
}

// maxTracedBytes bounds the tensor whose elements are in a trace. Of a larger one only name, type and shape are.
const maxTracedBytes = 1 << 20

// note takes tensors down.
func (n *traced) note(activity string, tensors []edgewise.Tensor) {
	for _, t := range tensors {
		picture.Settle(&t)
		sizes := make([]string, len(t.Shape))
		for i, size := range t.Shape {
			sizes[i] = strconv.FormatInt(size, 10)
		}
		noted := tracedTensor{activity: activity, Name: t.Name, Shape: strings.Join(sizes, ","), Type: t.Type.String()}
		if len(t.Data) <= maxTracedBytes {
			noted.Data = elements(t)
		}
		n.tensors = append(n.tensors, noted)
	}
}

// elements writes the elements of a tensor, separated by commas: numbers as such, text as JSON strings, and the short
// floats, FP16 and BF16, as their bits.
func elements(t edgewise.Tensor) string {
	var out []byte
	if t.Type == edgewise.Bytes {
		for element := range edgewise.Elements(t.Data) {
			out = append(strconv.AppendQuote(out, string(element)), ',')
		}
		return string(out[:max(len(out)-1, 0)])
	}
	size := int(t.Type.Size())
	if size == 0 {
		return ""
	}
	for rest := t.Data; len(rest) >= size; rest = rest[size:] {
		out = append(appendNumber(out, t.Type, rest[:size]), ',')
	}
	return string(out[:max(len(out)-1, 0)])
}

func appendNumber(out []byte, typ edgewise.DataType, data []byte) []byte {
	switch {
	case typ == edgewise.FP32:
		return strconv.AppendFloat(out, scalar.Float(typ, data), 'g', -1, 32)
	case typ == edgewise.FP64:
		return strconv.AppendFloat(out, scalar.Float(typ, data), 'g', -1, 64)
	case typ.IsFloat():
		return strconv.AppendUint(append(out, "0x"...), scalar.Bits(typ, data), 16)
	}
	return scalar.AppendInteger(out, typ, data)
}
