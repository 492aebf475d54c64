package e2e

import (
	"archive/tar"
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// refusal is an upload that must not become a version.
type refusal struct {
	name    string
	path    string // behind /api/v1/models/; "bad/versions" unless given
	mime    string // mimeFile unless given
	body    []byte
	headers []string
	status  int      // 400 unless given
	parts   []string // of the error
}

// TestUploadsThatAreRefused sends bad uploads one after the other. After each of them nothing is left of it, and the
// box still serves; at the end the store is whole.
func TestUploadsThatAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := serveReady(t, dir)
	b.upload("good", "", biased(1))
	before := files(t, dir)
	for _, table := range [][]refusal{notModels(), hostileModels(), hostileArchives(), badConfigurations(), badRequests()} {
		for _, r := range table {
			t.Run(r.name, func(t *testing.T) {
				b.wantRefused(t, r)
				if after := files(t, dir); after != before {
					t.Errorf("the data folder has %d files, %d before", after, before)
				}
				b.wantBias("good", "1", 1)
			})
		}
	}
	if list := b.must("model", "list"); len(strings.Split(strings.TrimSpace(list), "\n")) != 2 {
		t.Errorf("there is more than the good model:\n%s", list)
	}
	b.stop()
	wantHealthy(t, dir)
}

func (b *box) wantRefused(t *testing.T, r refusal) {
	t.Helper()
	path, mime, status := "bad/versions", mimeFile, http.StatusBadRequest
	if r.path != "" {
		path = r.path
	}
	if r.mime != "" {
		mime = r.mime
	}
	if r.status != 0 {
		status = r.status
	}
	got, text := b.send(http.MethodPost, "/api/v1/models/"+path, r.body, append([]string{"Content-Type", mime}, r.headers...)...)
	if got != status {
		t.Errorf("answer %d %s, want %d", got, text, status)
	}
	contains(t, "the answer", strings.ReplaceAll(text, `\"`, `"`), append([]string{`{"error":"`}, r.parts...)...)
}

func notModels() []refusal {
	whole := biased(1).Bytes()
	huge := biased(1)
	huge.Graph.Initializers[0].Data = nil
	huge.Graph.Initializers[0].Extra = new(onnxgen.Message).Tag(9, 2).Raw(0x80, 0x80, 0x80, 0x80, 0x08) // 2 GiB of raw data
	return []refusal{
		{name: "empty body", parts: []string{"model.onnx"}},
		{name: "text", body: []byte("this is no model\n"), parts: []string{"model.onnx"}},
		{name: "png", status: 400, body: []byte("\x89PNG\r\n\x1a\n0000"), parts: []string{"model.onnx", "picture"}},
		{name: "zip", status: 400, body: []byte("PK\x03\x04 0000 0000"), parts: []string{"model.onnx", "zip archive"}},
		{name: "program", status: 400, body: []byte("\x7fELF 0000 0000"), parts: []string{"model.onnx", "program"}},
		{name: "truncated", body: whole[:len(whole)-20], parts: []string{"model.onnx"}},
		{name: "half", body: whole[:len(whole)/2], parts: []string{"model.onnx"}},
		{name: "2 GiB declared in a small file", body: huge.Bytes(), parts: []string{"model.onnx", "2147483648"}},
	}
}

func hostileModels() []refusal {
	change := func(edit func(*onnxgen.Model)) []byte {
		m := biased(1)
		edit(m)
		return m.Bytes()
	}
	return []refusal{
		{
			name: "operator set of the future", status: 501, parts: []string{"ai.onnx", "9999"},
			body: change(func(m *onnxgen.Model) { m.Opsets = []onnxgen.Opset{{Version: 9999}} }),
		},
		{name: "format of the future", status: 501, parts: []string{"9999"}, body: change(func(m *onnxgen.Model) { m.IR = 9999 })},
		{name: "operator of an unknown domain", status: 501, parts: []string{"com.evil"}, body: change(func(m *onnxgen.Model) {
			m.Graph.Nodes[0].Domain = "com.evil"
			m.Opsets = []onnxgen.Opset{{Version: 13}, {Domain: "com.evil", Version: 1}}
		})},
		{name: "compiled context of a vendor", status: 501, parts: []string{"EPContext"}, body: change(func(m *onnxgen.Model) {
			m.Graph.Nodes[0].Op, m.Graph.Nodes[0].Domain = "EPContext", "com.microsoft"
			m.Opsets = []onnxgen.Opset{{Version: 13}, {Domain: "com.microsoft", Version: 1}}
		})},
		{
			name: "tensor larger than its data", parts: []string{"bias"},
			body: change(func(m *onnxgen.Model) { m.Graph.Initializers[0].Dims = []int64{1 << 29} }),
		},
		{
			name: "dimensions that overflow", parts: []string{"bias"},
			body: change(func(m *onnxgen.Model) { m.Graph.Initializers[0].Dims = []int64{1 << 40, 1 << 40} }),
		},
	}
}

// external is the archive of a model whose weights stand at a place of its choice.
func external(location string, offset int64, more ...*tar.Header) []byte {
	m := biased(1)
	m.Graph.Initializers[0] = m.Graph.Initializers[0].In(location, offset)
	entries := append([]*tar.Header{regular("weights.bin")}, more...)
	return archive(m.Bytes(), entries...)
}

func hostileArchives() []refusal {
	model := biased(1).Bytes()
	link := &tar.Header{Name: "link.bin", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}
	hard := &tar.Header{Name: "hard.bin", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}
	many := make([]*tar.Header, 1100)
	for i := range many {
		many[i] = regular("file" + strconv.Itoa(i))
	}
	list := []refusal{
		{name: "external data at an absolute path", body: external("/etc/passwd", 0), parts: []string{"external data", "/etc/passwd"}},
		{name: "external data above the folder", body: external("../weights.bin", 0), parts: []string{"external data", "../weights.bin"}},
		{name: "external data in memory", body: external("*/_ORT_MEM_ADDR_/*", 0), parts: []string{"external data", "_ORT_MEM_ADDR_"}},
		{name: "external data in a missing file", body: external("missing.bin", 0), parts: []string{"missing.bin"}},
		{name: "external data beyond the end", body: external("weights.bin", 1), parts: []string{"weights.bin", "offset 1", "16"}},
		{name: "external data far beyond the end", body: external("weights.bin", 1<<62), parts: []string{"weights.bin"}},
		{name: "symbolic link", body: external("link.bin", 0, link), parts: []string{"link.bin", "regular files"}},
		{name: "hard link", body: external("hard.bin", 0, hard), parts: []string{"hard.bin", "regular files"}},
		{name: "device", body: archive(model, &tar.Header{Name: "null", Typeflag: tar.TypeChar}), parts: []string{"null", "regular files"}},
		{name: "file above the folder", body: archive(model, regular("../escape")), parts: []string{"../escape"}},
		{name: "file at an absolute path", body: archive(model, regular("/tmp/escape")), parts: []string{"/tmp/escape"}},
		{name: "too many files", status: 413, body: archive(model, many...), parts: []string{"1024", "upload.max_files"}},
		{name: "file twice", body: archive(model, regular("a"), regular("a")), parts: []string{`"a"`, "twice"}},
		{name: "file and folder of one name", body: archive(model, regular("a"), regular("a/b")), parts: []string{`"a/b"`, `"a"`, "file"}},
		{name: "folder and file of one name", body: archive(model, regular("a/b"), regular("a")), parts: []string{`"a"`}},
		{name: "archive without a model", body: archive(nil, regular("weights.bin")), parts: []string{"model.onnx", "weights.bin"}},
		{name: "archive without a file", body: archive(nil), parts: []string{"without a file"}},
		{name: "cut archive", body: archive(model)[:600], parts: []string{"archive"}},
		{name: "no archive", body: bytes.Repeat([]byte("x"), 2048), parts: []string{"archive"}},
	}
	for i := range list {
		list[i].mime = mimeTar
	}
	return list
}

// regular is a file of 16 bytes.
func regular(name string) *tar.Header {
	return &tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 16, Mode: 0o644}
}

// archive packs a model, unless it is nil, and entries.
func archive(model []byte, entries ...*tar.Header) []byte {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	add := func(h *tar.Header, content []byte) {
		if err := w.WriteHeader(h); err != nil {
			panic(err) // of the test's own making
		}
		if _, err := w.Write(content); err != nil {
			panic(err)
		}
	}
	if model != nil {
		add(&tar.Header{Name: "model.onnx", Typeflag: tar.TypeReg, Size: int64(len(model)), Mode: 0o644}, model)
	}
	for _, h := range entries {
		add(h, make([]byte, h.Size))
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return packed.Bytes()
}

// configured packs a good model with a configuration.
func configured(text string) []byte { return described(biased(1), text) }

// described packs a model with a configuration.
func described(model *onnxgen.Model, text string) []byte {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, f := range []struct {
		name string
		data []byte
	}{{"model.onnx", model.Bytes()}, {"config.pbtxt", []byte(text)}} {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Typeflag: tar.TypeReg, Size: int64(len(f.data)), Mode: 0o644}); err != nil {
			panic(err)
		}
		if _, err := w.Write(f.data); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return packed.Bytes()
}

func badConfigurations() []refusal {
	list := []refusal{
		{
			name: "several contradictions are told together",
			body: configured("max_batch_size: 4\ninput { name: \"x\" data_type: TYPE_INT64 dims: [4] }\ninput { name: " +
				"\"nosuch\" data_type: TYPE_FP32 dims: [4] }\n" +
				"output { name: \"y\" data_type: TYPE_FP32 dims: [5] }\n"),
			parts: []string{"INT64", "nosuch", "y", "5"},
		},
		{name: "unknown field", body: configured("max_batch_size: 4\n\nmax_bach_size: 8\n"), parts: []string{"config.pbtxt:3", "max_bach_size"}},
		{name: "syntax", body: configured("max_batch_size: 4\ninput [ {\n"), parts: []string{"config.pbtxt:"}},
		{name: "another name", body: configured("name: \"other\"\n"), parts: []string{"other", "bad"}},
		{name: "unknown platform", body: configured("platform: \"tensorflow_graphdef\"\n"), parts: []string{"tensorflow_graphdef"}, status: 501},
	}
	for i := range list {
		list[i].mime = mimeTar
	}
	return list
}

func badRequests() []refusal {
	body := biased(1).Bytes()
	list := []refusal{
		{name: "name with a slash", path: "a%2Fb/versions", parts: []string{`"a/b"`, "'/'"}},
		{name: "name that leads up", path: "%2E%2E/versions", parts: []string{`".."`}},
		{name: "name with NUL", path: "a%00b/versions", parts: []string{`a\\x00b`}},
		{name: "name of 300 bytes", path: strings.Repeat("n", 300) + "/versions", parts: []string{"300 bytes", "128"}},
		{name: "name of look-alikes", path: "c%D0%B0t/versions", parts: []string{"model name", "not allowed"}},
		{name: "name with a combining accent", path: "cafe%CC%81/versions", parts: []string{"model name", "not allowed"}},
		{name: "name that begins with a dot", path: ".cat/versions", parts: []string{`".cat"`}},
		{name: "name with a space", path: "a%20b/versions", parts: []string{`"a b"`}},
		{name: "version 0", path: "bad/versions?version=0", parts: []string{`version "0"`}},
		{name: "version -1", path: "bad/versions?version=-1", parts: []string{`version "-1"`}},
		{name: "version abc", path: "bad/versions?version=abc", parts: []string{`version "abc"`}},
		{name: "version over 2^63", path: "bad/versions?version=9223372036854775808", parts: []string{"9223372036854775808"}},
		{name: "file that leads up", path: "bad/versions?file=../model.onnx", parts: []string{"../model.onnx"}},
		{name: "unknown query", path: "bad/versions?verison=1", parts: []string{"verison"}},
		{name: "version that is there", path: "good/versions?version=1", status: 409, parts: []string{`"good" version 1`}},
		{name: "unknown content type", mime: "text/plain", status: 415, parts: []string{"text/plain", mimeTar}},
		{name: "compressed body", headers: []string{"Content-Encoding", "gzip"}, status: 501, parts: []string{"gzip"}},
		{name: "wrong digest", headers: []string{"Content-Digest", "sha-256=:" + strings.Repeat("A", 43) + "=:"}, parts: []string{"igest"}},
		{name: "digest that is none", headers: []string{"Content-Digest", "sha-256=:xyz:"}, parts: []string{"Content-Digest"}},
		{name: "foreign origin", headers: []string{"Origin", "http://evil.example"}, status: 403, parts: []string{"evil.example"}},
	}
	for i := range list {
		list[i].body = body
	}
	return list
}
