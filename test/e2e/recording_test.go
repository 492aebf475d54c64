package e2e

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/image/font/gofont/gobold"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/test/real"
)

// replays is how many requests of the demo's pipelines are recorded and replayed; "make soak" takes 1,000.
var replays = flag.Int("e2e.replays", 18, "how many requests of the demo's pipelines are recorded and replayed")

// pipelines are those of the demo, with the media types of their inputs.
var pipelines = []struct{ model, input, media string }{
	{"text", "image", "image/png"}, {"faces", "image", "image/png"}, {"speech", "sound", "audio/wav"},
}

// subjects makes inputs of the pipelines, no two of them equal.
type subjects struct {
	t     *testing.T
	face  *image.RGBA
	sound []byte
}

func newSubjects(t *testing.T) *subjects {
	sound, err := os.ReadFile(sample(t, "speech.wav"))
	if err != nil {
		t.Fatal(err)
	}
	return &subjects{t, readPicture(t, sample(t, "face.jpg")), sound}
}

// file returns input i of a pipeline.
func (s *subjects) file(model string, i int) []byte {
	switch model {
	case "text":
		picture := image.NewRGBA(image.Rect(0, 0, 320, 120))
		draw.Draw(picture, picture.Rect, image.NewUniform(color.Gray{uint8(200 + i%50)}), image.Point{}, draw.Src)
		drawString(s.t, picture, gobold.TTF, 34, color.Black, image.Pt(20+i%30, 50), fmt.Sprintf("Pump %d", i))
		return encoded(s.t, picture)
	case "faces":
		picture := image.NewRGBA(image.Rect(0, 0, 500, 320))
		draw.Draw(picture, picture.Rect, image.NewUniform(color.Gray{uint8(60 + i%100)}), image.Point{}, draw.Src)
		at := image.Pt(i%50, i%20)
		draw.Draw(picture, s.face.Rect.Add(at), s.face, image.Point{}, draw.Src)
		return encoded(s.t, picture)
	}
	sound := slices.Clone(s.sound)
	for at := soundHeader; at+1 < len(sound); at += 2 {
		louder := int16(binary.LittleEndian.Uint16(sound[at:])) / 2
		binary.LittleEndian.PutUint16(sound[at:], uint16(louder+int16((i*at)%97)))
	}
	return sound
}

func encoded(t *testing.T, picture image.Image) []byte {
	var file bytes.Buffer
	if err := png.Encode(&file, picture); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// awaitRecorded waits until n requests of a model are recorded, and none was lost.
func (b *box) awaitRecorded(model string, n int) {
	b.t.Helper()
	var found admin.Recording
	await(b.t, "the recorded requests of "+model, func() bool {
		var err error
		if found, err = b.client.Recording(b.t.Context(), model); err != nil {
			b.t.Fatal(err)
		}
		return found.Requests >= n || found.Skipped+found.Dropped > 0
	})
	if found.Requests != n || found.Skipped+found.Dropped > 0 {
		b.t.Fatalf("recorded are %+v, want %d requests", found, n)
	}
}

// TestRecordedRequestsReplayBitForBit records requests to the pipelines of text, faces and speech, no two of them equal, and
// sends them again after a restart, to the same versions on the CPU.
func TestRecordedRequestsReplayBitForBit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := serveReady(t, dir, "--import", real.Models(t), "--import", real.Pipelines(t))
	counts := map[string]int{}
	for _, p := range pipelines {
		b.must("recording", "start", p.model, "--share", "1", "--quota", "1GiB", "--keep", "24h")
	}
	s := newSubjects(t)
	for i := range *replays {
		p := pipelines[i%len(pipelines)]
		status, text := b.send(http.MethodPost, "/v2/models/"+p.model+"/infer", s.file(p.model, i), "Content-Type", p.media)
		if status != http.StatusOK {
			t.Fatalf("%s %d: %d %s", p.model, i, status, text)
		}
		counts[p.model]++
	}
	for _, p := range pipelines {
		b.awaitRecorded(p.model, counts[p.model])
		b.must("recording", "stop", p.model)
	}
	b.stop()
	b = serveReady(t, dir)
	for _, p := range pipelines {
		want := counts[p.model]
		if r := b.replay(p.model+":1", "--exact"); r.Requests != want || r.Agreed != want {
			t.Errorf("%s: %+v, want %d of %d answers that agree", p.model, r, want, want)
		}
	}
	b.stop()
	wantHealthy(t, dir)
}

// replayed is the report of a replay.
type replayed struct {
	Requests, Agreed, Different, Failed, Masked int
	Differences                                 json.RawMessage
}

// replay runs the command, which may take long, and returns its report.
func (b *box) replay(arguments ...string) (r replayed) {
	b.t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(b.t.Context(), real.Program(b.t), append([]string{"--server", b.url, "-o", "json", "replay"}, arguments...)...)
	cmd.Env, cmd.Stderr = []string{"PATH=" + os.Getenv("PATH")}, &stderr
	out, err := cmd.Output()
	if broken := json.Unmarshal(out, &r); broken != nil {
		b.t.Fatalf("replay %q: %v, %v: %s", arguments, err, broken, stderr.String())
	}
	return r
}

const plantedSecret = "planted-secret-4711-of-a-person"

// withSecret puts the secret where a file keeps what it says about itself.
func withSecret(media string, file []byte) []byte {
	if media == "audio/wav" {
		chunk := append(binary.LittleEndian.AppendUint32([]byte("note"), uint32(len(plantedSecret)+1)), plantedSecret+"\x00"...)
		file = append(slices.Clone(file), chunk...)
		binary.LittleEndian.PutUint32(file[4:], uint32(len(file)-8))
		return file
	}
	const behindHead = 8 + 25 // the signature and the chunk IHDR
	text := append([]byte("tEXtComment\x00"), plantedSecret...)
	chunk := append(binary.BigEndian.AppendUint32(nil, uint32(len(text)-4)), text...)
	chunk = binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(text))
	return slices.Concat(file[:behindHead], chunk, file[behindHead:])
}

// holding returns the files below folders that have the secret in some byte, those of box.db that are free, too.
func holding(t *testing.T, folders ...string) (list []string) {
	t.Helper()
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || err == nil && !d.Type().IsRegular() {
				return nil
			}
			data, failed := os.ReadFile(path)
			if bytes.Contains(data, []byte(plantedSecret)) {
				list = append(list, path)
			}
			if errors.Is(failed, fs.ErrNotExist) { // a temporary file that is gone
				failed = nil
			}
			return errors.Join(err, failed)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// TestMaskedInputsOfPipelinesAreNowhereOnTheDisk plants secrets in inputs that are dropped, hashed and blurred, in
// requests that are answered and in some that fail, and looks for them in every file that the box has: while it runs,
// after it was killed, and after it was stopped.
func TestMaskedInputsOfPipelinesAreNowhereOnTheDisk(t *testing.T) {
	t.Parallel()
	dir, temporary := t.TempDir(), t.TempDir()
	environment := []string{"TMPDIR=" + temporary}
	b := serveWith(t, environment, dir, "--import", real.Models(t), "--import", real.Pipelines(t))
	b.awaitReady()
	s := newSubjects(t)
	ask := func(i int, model, media string, want int) {
		t.Helper()
		file := withSecret(media, s.file(model, i))
		if want != http.StatusOK {
			file = []byte(plantedSecret + " is no " + media)
		}
		if status, text := b.send(http.MethodPost, "/v2/models/"+model+"/infer", file, "Content-Type", media); status != want {
			t.Fatalf("%s: %d %s", model, status, text)
		}
	}
	clean := func(when string) {
		t.Helper()
		if list := holding(t, dir, temporary); len(list) > 0 {
			t.Errorf("%s: the secret is in %q", when, list)
		}
	}
	for i, how := range []string{admin.MaskDrop, admin.MaskHash, admin.MaskBlur} {
		for _, p := range pipelines {
			b.must("recording", "start", p.model, "--share", "1", "--mask", p.input+"="+how)
			ask(i, p.model, p.media, http.StatusOK)
			ask(i, p.model, p.media, http.StatusUnprocessableEntity)
			b.awaitRecorded(p.model, 2*(i+1))
		}
		clean(how)
	}
	b.refuses(3, []string{"6 have masked inputs"}, "replay", "text")
	b.kill()
	clean("after it was killed")
	b = serveWith(t, environment, dir)
	b.awaitReady()
	clean("after a start")
	ask(9, "text", "image/png", http.StatusOK)
	b.awaitRecorded("text", 7)
	b.stop()
	clean("after the end")

	b = serveReady(t, dir) // the search itself finds what is not masked
	if _, err := b.client.SetRecording(t.Context(), "text", admin.RecordingSettings{
		Enabled: true, Share: 1, QuotaBytes: 1 << 30, RetentionSeconds: 3600,
	}); err != nil {
		t.Fatal(err)
	}
	ask(10, "text", "image/png", http.StatusOK)
	b.awaitRecorded("text", 8)
	if list := holding(t, dir, temporary); len(list) != 1 || filepath.Dir(list[0]) != filepath.Join(dir, "recordings", "text") {
		t.Errorf("without a mask the secret is in %q", list)
	}
}

// TestRecordingFromTheCommandLine follows a recording: requests, a replay at another box, an export, a golden, the end.
func TestRecordingFromTheCommandLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, other := serveReady(t, dir), serveReady(t, t.TempDir())
	b.upload("cat", "?promote=true", biased(1))
	other.upload("cat", "?promote=true", biased(1))
	other.upload("cat", "?promote=true", biased(3))
	other.must("model", "promote", "cat:1", "--label", "old")
	b.refuses(4, []string{"masks", "photo"}, "recording", "start", "cat", "--mask", "photo=drop")
	contains(t, "start", b.must("recording", "start", "cat", "--share", "1", "--keep", "1h"), "100 % of the requests are recorded")
	for range 3 {
		b.wantBias("cat", "1", 1)
	}
	b.awaitRecorded("cat", 3)
	contains(t, "list", b.must("recording", "list", "cat"), "NUMBER", "answered")

	archive := filepath.Join(t.TempDir(), "cat.tar")
	b.must("recording", "save", "cat", archive)
	contains(t, "replay", other.must("replay", "cat:1", "--file", archive, "--exact", "--concurrency", "4"), "3 of 3 answers agree")
	other.refuses(4, []string{"3 of 3 recorded requests", "answered otherwise"}, "replay", "cat:2", "--file", archive)
	export := filepath.Join(t.TempDir(), "arrays")
	contains(t, "export", b.must("recording", "export", "cat", export), "3 recorded requests")
	if n := files(t, export); n != 3 {
		t.Errorf("%d files are exported", n)
	}

	contains(t, "promote", b.must("recording", "promote", "cat", "2", "--name", "seen"), "recorded request 2 is golden")
	contains(t, "goldens", b.must("golden", "list", "cat"), "seen", "version 1")
	contains(t, "run", b.must("golden", "run", "cat:1"), "passes 1 of 1 goldens")
	b.must("recording", "start", "cat", "--mask", "x=drop")
	b.wantBias("cat", "1", 1)
	b.awaitRecorded("cat", 4)
	b.refuses(4, []string{"masked", `"x"`}, "recording", "promote", "cat", "4")

	b.must("recording", "rm", "cat", "4")
	b.refuses(3, []string{"no recorded request 4"}, "recording", "rm", "cat", "4")
	b.must("recording", "rm", "cat")
	b.refuses(3, []string{"nothing to replay"}, "replay", "cat")
	if n := files(t, filepath.Join(dir, "recordings")); n != 0 {
		t.Errorf("%d files are left", n)
	}
	b.stop()
	wantHealthy(t, dir)
}

// TestAFullDiskEndsTheRecordingAndNotTheServing gives the recorded requests a file system of 64 KiB, and makes room there.
func TestAFullDiskEndsTheRecordingAndNotTheServing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	disk := filepath.Join(dir, "recordings")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	space := []string{"unshare", "--mount"}
	if os.Geteuid() != 0 {
		space = append(space, "--user", "--map-root-user")
	}
	b := serveWrapped(t, append(space, "sh", "-c", `mount -t tmpfs -o size=64k tmpfs "$0" && exec "$@"`, disk), dir)
	b.awaitReady()
	b.upload("cat", "", biased(1))
	b.must("recording", "start", "cat", "--share", "1")
	recording := func(what string, done func(r admin.Recording) bool) (r admin.Recording) {
		await(t, what, func() (ok bool) {
			b.wantBias("cat", "1", 1)
			var err error
			if r, err = b.client.Recording(t.Context(), "cat"); err != nil {
				t.Fatal(err)
			}
			return done(r)
		})
		return r
	}
	full := recording("the disk to be full", func(r admin.Recording) bool { return r.Problem != "" })
	if full.Recorded == 0 || !strings.Contains(full.Problem, "no space left") {
		t.Errorf("%+v", full)
	}
	list, err := b.client.RecordedRequests(t.Context(), "cat", 100)
	if err != nil || len(list) != full.Requests {
		t.Errorf("%d of %d requests are listed (%v)", len(list), full.Requests, err)
	}
	for _, r := range list[:2] {
		if err := b.client.DeleteRecordedRequest(t.Context(), "cat", r.Number); err != nil {
			t.Error(err)
		}
	}
	recording("the recording to go on", func(r admin.Recording) bool { return r.Recorded > full.Recorded })
	b.must("replay", "cat", "--exact")
}
