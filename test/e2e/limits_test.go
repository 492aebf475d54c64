package e2e

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// TestLimitsOfREST crosses each limit of docs/guides/limits.md by one at the number that stands there, as the program
// is delivered. limit is what the answer has to name; 0: the limit is no number of the box's.
func TestLimitsOfREST(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir(), "--set", "shared_memory.enabled=true")
	b.upload("sum", "", biased(1))
	b.upload("text", "", onnxgen.Identity(edgewise.Bytes, onnxgen.Batch(-1)...))
	b.upload("wide", "", onnxgen.Identity(edgewise.FP64, onnxgen.Batch(-1)...))
	object, _ := sharedObject(t, 100)
	b.exchange(t, wire{
		"region", "POST", "/v2/systemsharedmemory/region/r/register",
		fmt.Sprintf(`{"key":%q,"byte_size":100}`, object), nil, 200, "=",
	})

	const sum, text = "/v2/models/sum/infer", "/v2/models/text/infer"
	input := func(shape, rest string) string {
		return `{"inputs":[{"name":"x","datatype":"FP32","shape":` + shape + `,` + rest + `}]}`
	}
	framed := func(elements, bytes string) wire {
		head := `{"inputs":[{"name":"x","datatype":"BYTES","shape":[1,` + elements + `],"parameters":{"binary_data_size":` +
			strconv.Itoa(len(bytes)) + `}}]}`
		return wire{path: text, body: head + bytes, headers: []string{"Inference-Header-Content-Length", strconv.Itoa(len(head))}, status: 400}
	}
	shared := func(offset, size string) string {
		return input("[1,4]", `"parameters":{"shared_memory_region":"r","shared_memory_offset":`+offset+`,"shared_memory_byte_size":`+size+`}`)
	}
	for _, test := range []struct {
		name  string
		w     wire
		limit int64
	}{
		{"JSON", wire{path: sum, body: zeros + strings.Repeat(" ", 64<<20+1-len(zeros)), status: 400}, 64 << 20},
		{"expanded", wire{path: sum, body: gzipped(t, 64<<20+1), headers: []string{"Content-Encoding", "gzip"}, status: 400}, 64 << 20},
		{"raw", wire{
			path: sum, body: strings.Repeat("\x00", 64<<20+1),
			headers: []string{"Inference-Header-Content-Length", "0"}, status: 400, want: "Raw input has a byte_size",
		}, 64 << 20},
		{"nesting", wire{path: sum, body: `{"a":` + strings.Repeat("[", 100), status: 400}, 100},
		{"tensors", wire{path: sum, body: `{"inputs":[` + repeated(1025,
			`{"name":"x%d","datatype":"FP32","shape":[1],"data":[0]}`) + `]}`, status: 400}, 1024},
		{"outputs", wire{path: sum, body: zeros[:len(zeros)-1] + `,"outputs":[` + repeated(1024, `{"name":"y%d"}`) + `]}`, status: 400}, 1024},
		{"parameters", wire{path: sum, body: `{"parameters":{` + repeated(257, `"p%d":1`) + `},` + zeros[1:], status: 400}, 256},
		{"name", wire{path: sum, body: strings.Replace(zeros, `"x"`, `"`+strings.Repeat("x", 1025)+`"`, 1), status: 400}, 1024},
		{"id", wire{path: sum, body: `{"id":"` + strings.Repeat("x", 1025) + `",` + zeros[1:], status: 400}, 1024},
		{"dimensions", wire{
			path: sum, body: input("["+strings.Repeat("1,", 32)+"1]", `"data":[0]`), status: 400,
			want: "more than 32 dimensions",
		}, 0},
		{"elements of a shape", wire{
			path: sum, body: input("[4294967296,4294967296]", `"data":[0]`), status: 400,
			want: "causes total element count to exceed maximum size of 9223372036854775807",
		}, 0},
		{"one dimension", wire{
			path: sum, body: input("[9223372036854775808]", `"data":[0]`), status: 400,
			want: "is not an integer from 0 to 9223372036854775807",
		}, 0},
		{"bytes of a shape", wire{path: sum, body: input("[4611686018427387904]", `"data":[0]`), status: 400, want: "byte size"}, 0},
		{"tensors from JSON", wire{
			path: "/v2/models/wide/infer",
			body: `{"inputs":[{"name":"x","datatype":"FP64","shape":[1,16777217],"data":[` + strings.Repeat("0,",
				16<<20) + `0]}]}`, status: 400,
		}, 128 << 20},
		{"classes", wire{path: sum, body: zeros[:len(zeros)-1] +
			`,"outputs":[{"name":"y","parameters":{"classification":18446744073709551616}}]}`, status: 400, want: "classification"}, 0},
		{"a string that is cut off", framed("1", le32(3)+"ab"), 0},
		{"a length that is cut off", framed("2", le32(1)+"a\x01"), 0},
		{"a string too many", framed("1", le32(0)+le32(0)), 0},
		{"a string too few", framed("2", le32(0)), 0},
		{"the end of a region", wire{
			path: sum, body: shared("85", "16"), status: 400,
			want: "Invalid offset + byte size for shared memory region: 'r': 85 + 16, of 100 bytes",
		}, 0},
		{"an offset past it", wire{
			path: sum, body: shared("101", "16"), status: 400,
			want: "Invalid offset for shared memory region: 'r': 101, of 100 bytes",
		}, 0},
		{"a sum that overflows", wire{path: sum, body: shared("16", "18446744073709551615"), status: 400, want: "Integer overflow detected"}, 0},
		{"a region past its object", wire{
			path: "/v2/systemsharedmemory/region/s/register",
			body: fmt.Sprintf(`{"key":%q,"offset":1,"byte_size":100}`, object), status: 400, want: "do not fit into the 100 bytes",
		}, 0},
		{"name of a region", wire{
			path: "/v2/systemsharedmemory/region/" + strings.Repeat("s", 256) + "/register",
			body: fmt.Sprintf(`{"key":%q,"byte_size":100}`, object), status: 400, want: "255 bytes",
		}, 0},
		{"any other body", wire{path: "/v2/repository/index", body: "{}" + strings.Repeat(" ", 1<<20-1), status: 400}, 1 << 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.w.method = "POST"
			if test.limit != 0 {
				test.w.want = fmt.Sprintf(`"limit":%d`, test.limit)
			}
			b.exchange(t, test.w)
		})
	}
	b.refusedByHeaders(t, sum, "Content-Length: 268435457\r\n", 400, `"limit":268435456`)
	b.refusedByHeaders(t, sum, "X: "+strings.Repeat("x", 16<<10)+"\r\n", 431, "headers")
	b.exchange(t, wire{"it still works", "POST", sum, zeros, nil, 200, "[1,1,1,1]"})
}

// TestLargeBodiesOfOtherRoutes announces bodies that are one byte longer than those of their routes may be.
func TestLargeBodiesOfOtherRoutes(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir())
	for _, test := range []struct {
		name, path string
		limit      int64
	}{
		{"a compiled step that is tried", "/api/v1/steps/trial", 40 << 20},
		{"a compiled step that is stored", "/api/v1/steps/cat/versions", 40 << 20},
		{"a load with files", "/v2/repository/models/cat/load", 256 << 20},
		{"a draft that is run", "/api/v1/drafts/1/trace", 256 << 20},
		{"a golden", "/api/v1/models/cat/goldens", 256 << 20},
		{"an update of the system", "/api/v1/system/update", 2 << 30},
	} {
		t.Run(test.name, func(t *testing.T) {
			header := fmt.Sprintf("Content-Type: application/octet-stream\r\nContent-Length: %d\r\n", test.limit+1)
			status := 413
			if strings.HasPrefix(test.path, "/v2/") { // as Triton's clients know it
				status = 400
			}
			b.refusedByHeaders(t, test.path, header, status, fmt.Sprintf(`"limit":%d`, test.limit))
		})
	}
}

// refusedByHeaders sends the headers of a request and no body, and wants the answer all the same.
func (b *box) refusedByHeaders(t *testing.T, path, header string, status int, want string) {
	t.Helper()
	answer, err := io.ReadAll(b.raw(t, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\n"+header+"\r\n"))
	if begin := fmt.Sprintf("HTTP/1.1 %d %s\r\n", status, http.StatusText(status)); err != nil ||
		!strings.HasPrefix(string(answer), begin) || !strings.Contains(string(answer), want) {
		t.Errorf("%.60q is answered %.600s, %v", header, answer, err)
	}
}

// repeated writes a list of n, each with its number.
func repeated(n int, format string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(list, ",")
}

// gzipped is n spaces. After the first block of them all others are compressed to the same bytes, which are made once:
// the race detector would watch each step of compressing hundreds of megabytes.
func gzipped(t *testing.T, n int) string {
	t.Helper()
	const size = 1 << 20
	block := bytes.Repeat([]byte(" "), size)
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	compressed := func(k int) string {
		b.Reset()
		_, err := w.Write(block[:k])
		if err = errors.Join(err, w.Flush()); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	whole, sum := n/size, crc32.NewIEEE()
	for range whole {
		_, _ = sum.Write(block)
	}
	_, _ = sum.Write(block[:n%size])
	text := "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
	if whole > 0 {
		text += compressed(size)
	}
	if whole > 1 {
		text += strings.Repeat(compressed(size), whole-1)
	}
	text += compressed(n % size)
	b.Reset()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	end := binary.LittleEndian.AppendUint32(nil, sum.Sum32())
	return text + b.String() + string(binary.LittleEndian.AppendUint32(end, uint32(n)))
}

func TestWhatIsGzippedInBlocksIsAsLongAsItSays(t *testing.T) {
	for _, n := range []int{0, 7, 1 << 20, 3<<20 + 5} {
		r, err := gzip.NewReader(strings.NewReader(gzipped(t, n)))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != strings.Repeat(" ", n) {
			t.Errorf("%d spaces: got %d bytes, %v", n, len(got), err)
		}
	}
}
