package httpapi_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

func digestOf(body string) string {
	sum := sha256.Sum256([]byte(body))
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

const (
	uploadPath = "/api/v1/models/m/versions"
	typeKey    = "Content-Type"
)

func TestASingleFileIsStored(t *testing.T) {
	for _, test := range []struct {
		name, query, file string
		version           int64
		live              bool
		size              int64
		reader            func(string) io.Reader
	}{
		{"defaults", "", "model.onnx", 1, true, 100_000, nil},
		{"named", "?file=weights/a.bin&version=7&promote=false", "weights/a.bin", 7, false, 100_000, nil},
		{
			"chunked", "?promote=true", "model.onnx", 1, true, -1,
			func(s string) io.Reader { return io.MultiReader(strings.NewReader(s)) },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			ts := startServer(t, nil)
			body := strings.Repeat("0123456789", 10_000)
			text := body
			if test.reader != nil {
				p := dial(t, ts)
				go p.send("POST " + uploadPath + test.query + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: " +
					"application/octet-stream\r\nContent-Digest: " + digestOf(body) +
					"\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(body, 7777))
				if status, answer := p.answer("POST"); status != 201 {
					t.Fatalf("answer %d %s", status, answer)
				}
			} else {
				resp, answer := ts.do(t, "POST", uploadPath+test.query, text, typeKey, "application/octet-stream", "Content-Digest",
					digestOf(body))
				if resp.StatusCode != 201 || resp.Header.Get("Location") != fmt.Sprintf("/api/v1/models/m/versions/%d",
					test.version) {
					t.Fatalf("answer %d at %q %s", resp.StatusCode, resp.Header.Get("Location"), answer)
				}
			}
			if got := ts.library.file(edgewise.ModelID{Name: "m", Version: test.version}, test.file); got != body {
				t.Errorf("%q holds %d bytes, want %d", test.file, len(got), len(body))
			}
			record, err := ts.library.Record("m")
			if err != nil || (record.Label("live") == test.version) != test.live {
				t.Errorf("live is %v, want it moved: %v", record, test.live)
			}
			if got := ts.library.sizes[0]; got != test.size {
				t.Errorf("declared size %d, want %d", got, test.size)
			}
		})
	}
}

// entry is one entry of an archive under test.
type entry struct {
	name string
	kind byte
	body string
}

func archiveOf(t *testing.T, entries ...entry) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Mode: 0o644, Size: int64(len(e.body))}
		if e.kind == tar.TypeSymlink || e.kind == tar.TypeLink {
			h.Linkname = "/etc/passwd"
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestAnArchiveIsStoredFileByFile(t *testing.T) {
	ts := startServer(t, nil)
	long := strings.Repeat("d", 120) + "/" + strings.Repeat("f", 120) // does not fit a plain header: PAX
	body := archiveOf(t, entry{"./", tar.TypeDir, ""}, entry{"./config.pbtxt", tar.TypeReg, "name: 'm'"},
		entry{"w/", tar.TypeDir, ""},
		entry{"w/a.bin", tar.TypeReg, strings.Repeat("x", 100_000)}, entry{"empty", tar.TypeReg, ""},
		entry{long, tar.TypeReg, "deep"})
	resp, answer := ts.do(t, "POST", uploadPath, body, typeKey, "application/x-tar", "Content-Digest", digestOf(body))
	if resp.StatusCode != 201 {
		t.Fatalf("answer %d %s", resp.StatusCode, answer)
	}
	id := edgewise.ModelID{Name: "m", Version: 1}
	for path, want := range map[string]string{
		"config.pbtxt": "name: 'm'", "w/a.bin": strings.Repeat("x", 100_000),
		"empty": "", long: "deep",
	} {
		if got := ts.library.file(id, path); got != want {
			t.Errorf("%q holds %d bytes, want %d", path, len(got), len(want))
		}
	}
	if n := len(ts.library.files[id]); n != 4 {
		t.Errorf("%d files, want 4", n)
	}
}

func TestBadUploadsMakeNoVersion(t *testing.T) {
	ts := startServer(t, nil)
	file, archive := "application/octet-stream", "application/x-tar"
	good := archiveOf(t, entry{"model.onnx", tar.TypeReg, "x"})
	var many, folders []entry
	for i := range 9 {
		folders = append(folders, entry{fmt.Sprint("d", i, "/"), tar.TypeDir, ""})
		many = append(many, entry{fmt.Sprint("f", i), tar.TypeReg, "x"})
	}
	for _, test := range []struct {
		name, query, kind, body, digest string
		status                          int
		want                            string
	}{
		{"no type", "", "", "x", "", 415, "want application/octet-stream or application/x-tar"},
		{"other type", "", "application/zip", "x", "", 415, `content type \"application/zip\"`},
		{"encoded", "", "gzip", "x", "", 501, "content encoding"},
		{"wrong digest", "", file, "x", digestOf("y"), 400, "the Content-Digest header announced"},
		{"wrong digest of an archive", "", archive, good, digestOf("y"), 400, "the Content-Digest header announced"},
		{"digest of another kind", "", file, "x", "md5=:AAAA:", 501, "want a sha-256 digest"},
		{"malformed digest", "", file, "x", "sha-256=abc", 400, "want sha-256=:"},
		{"short digest", "", file, "x", "sha-256=:AAAA:", 400, "base64 of 32 bytes"},
		{"version 0", "?version=0", file, "x", "", 400, "want a number from 1"},
		{"version of text", "?version=x", file, "x", "", 400, "want a number from 1"},
		{"negative version", "?version=-1", file, "x", "", 400, "want a number from 1"},
		{"promote", "?promote=yes", file, "x", "", 400, "want true or false"},
		{"file that escapes", "?file=../x", file, "x", "", 400, "clean path inside the model's folder"},
		{"absolute file", "?file=/etc/x", file, "x", "", 400, "clean path inside the model's folder"},
		{"file with NUL", "?file=a%00b", file, "x", "", 400, "control characters"},
		{"unknown parameter", "?versoin=1", file, "x", "", 400, "unknown query parameter"},
		{"size of text", "?size=big", file, "x", "", 400, "want the bytes of all files together"},
		{"negative size", "?size=-1", archive, good, "", 400, "want the bytes of all files together"},
		{"size that contradicts the length", "?size=2", file, "x", "", 400, "the body has 1 bytes"},
		{"parameter twice", "?version=1&version=2", file, "x", "", 400, "given 2 times"},
		{"bad query", "?a=%zz", file, "x", "", 400, "query string"},
		{"file with an archive", "?file=a", archive, good, "", 400, "an archive names its files"},
		{"not an archive", "", archive, strings.Repeat("x", 2000), "", 400, "not a readable tar archive"},
		{"empty archive", "", archive, "", "", 400, "no entry and no mark of its end"},
		{"archive of folders", "", archive, archiveOf(t, entry{"a/", tar.TypeDir, ""}), "", 400, "without a file"},
		{"archive cut off", "", archive, good[:512], "", 400, "not a readable tar archive"},
		{
			"archive cut off behind a file", "", archive, good[:len(good)-1024], "", 400,
			"the mark of its end is missing behind entry",
		},
		{"data after the archive", "", archive, good + strings.Repeat("x", 600), "", 400, "goes on after the end"},
		{
			"entry that escapes", "", archive, archiveOf(t, entry{"../x", tar.TypeReg, "x"}), "", 400,
			"clean path inside the model's folder",
		},
		{"entry that escapes later", "", archive, archiveOf(t, entry{"a/../../x", tar.TypeReg, "x"}), "", 400, "clean path"},
		{"absolute entry", "", archive, archiveOf(t, entry{"/x", tar.TypeReg, "x"}), "", 400, "clean path"},
		{"folder that escapes", "", archive, archiveOf(t, entry{"../x/", tar.TypeDir, ""}), "", 400, "clean path"},
		{
			"symbolic link", "", archive, archiveOf(t, entry{"x", tar.TypeSymlink, ""}), "", 400,
			"only regular files and folders",
		},
		{"hard link", "", archive, archiveOf(t, entry{"x", tar.TypeLink, ""}), "", 400, "only regular files and folders"},
		{"device", "", archive, archiveOf(t, entry{"x", tar.TypeBlock, ""}), "", 400, "only regular files and folders"},
		{"fifo", "", archive, archiveOf(t, entry{"x", tar.TypeFifo, ""}), "", 400, "only regular files and folders"},
		{"sparse entry", "", archive, sparseEntry(t), "", 400, "only regular files and folders"},
		{
			"entry twice", "", archive, archiveOf(t, entry{"x", tar.TypeReg, "1"}, entry{"./x", tar.TypeReg, "2"}), "", 400,
			"appears twice",
		},
		{
			"file below a file", "", archive, archiveOf(t, entry{"x", tar.TypeReg, "1"}, entry{"x/y", tar.TypeReg, "2"}), "",
			400, "which is a file",
		},
		{
			"file where a folder is", "", archive, archiveOf(t, entry{"x/y", tar.TypeReg, "1"}, entry{"x", tar.TypeReg, "2"}),
			"", 400, "appears twice",
		},
		{
			"too deep", "", archive, archiveOf(t, entry{strings.Repeat("a/", 8) + "b", tar.TypeReg, "x"}), "", 400,
			"folders deep",
		},
		{"too many files", "", archive, archiveOf(t, many...), "", 413, "more than 8 files or folders"},
		{"too many folders", "", archive, archiveOf(t, folders...), "", 413, "more than 8 files or folders"},
		{"entry of 8 GB", "", archive, hugeEntry(), "", 413, "an upload may have"},
	} {
		t.Run(test.name, func(t *testing.T) {
			headers := []string{typeKey, test.kind}
			if test.kind == "gzip" {
				headers = []string{typeKey, file, "Content-Encoding", "gzip"}
			}
			if test.digest != "" {
				headers = append(headers, "Content-Digest", test.digest)
			}
			resp, answer := ts.do(t, "POST", uploadPath+test.query, test.body, headers...)
			if resp.StatusCode != test.status || !strings.Contains(answer, test.want) {
				t.Errorf("answer %d %s; want %d with %q", resp.StatusCode, answer, test.status, test.want)
			}
			if n := ts.library.versions(); n != 0 {
				t.Errorf("%d versions exist", n)
			}
		})
	}
}

// hugeEntry is an archive whose first header announces 8 GiB - 1.
func hugeEntry() string {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	_ = w.WriteHeader(&tar.Header{Name: "x", Typeflag: tar.TypeReg, Size: 8<<30 - 1})
	return b.String()
}

// sparseEntry is an archive whose first entry is a sparse file in GNU's old form, which the library does not write.
func sparseEntry(t *testing.T) string {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "x", Typeflag: tar.TypeReg, Size: 0, Format: tar.FormatGNU}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	header := b.Bytes()[:512]
	header[156] = tar.TypeGNUSparse
	copy(header[483:], "00000000000\x00")
	copy(header[148:156], "        ")
	sum := 0
	for _, c := range header {
		sum += int(c)
	}
	copy(header[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return b.String()
}

func TestTheSecondUploadOfAVersionIsRefused(t *testing.T) {
	ts := startServer(t, nil)
	for i, want := range []int{201, 409} {
		resp, answer := ts.do(t, "POST", uploadPath+"?version=4", "x", typeKey, "application/octet-stream")
		if resp.StatusCode != want {
			t.Errorf("upload %d: %d %s, want %d", i, resp.StatusCode, answer, want)
		}
		if want == 409 && answer != `{"error":"model \"m\" version 4 exists","code":"exists","model":"m","version":4}` {
			t.Errorf("answer %s", answer)
		}
	}
}

func TestAnArchiveMayDeclareItsSize(t *testing.T) {
	ts := startServer(t, nil)
	good := archiveOf(t, entry{"model.onnx", tar.TypeReg, "x"})
	for _, query := range []string{"?size=1", ""} {
		if resp, body := ts.do(t, "POST", "/api/v1/models/m/versions"+query, good, typeKey,
			"application/x-tar"); resp.StatusCode != 201 {
			t.Fatalf("answer %d %s", resp.StatusCode, body)
		}
	}
	if got := fmt.Sprint(ts.library.sizes); got != "[1 -1]" {
		t.Errorf("declared sizes %s, want [1 -1]", got)
	}
}
