package recorded

import (
	"archive/zip"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/npy"
	"github.com/edgewise-ai/edgewise/appliance/example"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/tensorfile"
	"github.com/edgewise-ai/edgewise/scalar"
)

// The forms of an export.
const (
	NPZ    = "npz"    // a NumPy archive for each request
	Folder = "folder" // pictures and arrays, with a table of the answers
)

// maxCellBytes bounds what a table has of one output.
const maxCellBytes = 4096

// Export writes the requests of an archive to a new folder, and returns how many they are.
func Export(archive io.Reader, dir, format string, boxes Detector) (n int, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return 0, err
	}
	table := &answerTable{coco: newCoco(boxes)}
	for e, err := range In(archive) {
		if err != nil {
			return n, err
		}
		n++
		path := filepath.Join(dir, fmt.Sprintf("%06d", n))
		if format == NPZ {
			err = writeNpz(path+".npz", e)
		} else {
			err = table.add(n, path, e)
		}
		if err != nil {
			return n, err
		}
	}
	if format == NPZ {
		return n, nil
	}
	return n, table.write(dir)
}

// writeNpz writes the tensors of a request as a NumPy archive.
func writeNpz(path string, e *example.Example) error {
	var body bytes.Buffer
	archive := zip.NewWriter(&body)
	used := map[string]bool{}
	for i, t := range slices.Concat(e.Inputs, e.Outputs) {
		prefix := "in."
		if i >= len(e.Inputs) {
			prefix = "out."
		}
		w, err := archive.CreateHeader(&zip.FileHeader{Name: tensorfile.FileName(used, prefix+t.Name) + ".npy", Method: zip.Store})
		if err != nil {
			return err
		}
		if err := npy.Write(w, t); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, body.Bytes(), 0o600)
}

// answerTable gathers what is written of the answers of all requests.
type answerTable struct {
	heading []string // outputs
	rows    []map[string]string
	coco    *coco
}

// add writes the inputs of a request to files whose names begin with path, and notes its answer.
func (a *answerTable) add(number int, path string, e *example.Example) error {
	row := map[string]string{
		"request": strconv.Itoa(number), "version": strconv.FormatInt(e.Model.Version, 10),
		"arrived": e.Arrived.Format(time.RFC3339Nano), "took_ms": strconv.FormatFloat(e.Took.Seconds()*1000, 'f', 3, 64),
		"error": e.Error,
	}
	var files []string
	used := map[string]bool{}
	for i := range e.Inputs {
		t := &e.Inputs[i]
		written, err := writeInput(path+"-"+tensorfile.FileName(used, t.Name), t)
		if err != nil {
			return err
		}
		files = append(files, written...)
	}
	row["files"] = strings.Join(files, " ")
	for _, t := range e.Outputs {
		name := "out." + t.Name
		row[name] = cell(&t)
		if !slices.Contains(a.heading, name) {
			a.heading = append(a.heading, name)
		}
	}
	a.rows = append(a.rows, row)
	if len(files) > 0 {
		a.coco.add(number, files[0], e)
	}
	return nil
}

// writeInput writes an input as pictures where it holds such, else as a NumPy array, and returns the names of the files.
func writeInput(path string, t *edgewise.Tensor) ([]string, error) {
	files := pictures(t)
	if len(files) == 0 {
		var body bytes.Buffer
		if err := npy.Write(&body, *t); err != nil {
			return nil, err
		}
		files = []pictureFile{{".npy", body.Bytes()}}
	}
	var names []string
	for i, f := range files {
		name := path + f.suffix
		if i > 0 {
			name = fmt.Sprintf("%s-%d%s", path, i+1, f.suffix)
		}
		if err := os.WriteFile(name, f.body, 0o600); err != nil {
			return nil, err
		}
		names = append(names, filepath.Base(name))
	}
	return names, nil
}

// pictureFile is a picture as the bytes of a file.
type pictureFile struct {
	suffix string
	body   []byte
}

// pictures returns the pictures that a tensor holds: as files, or as rows of pixels of one byte a channel. It returns
// none where an element is no picture.
func pictures(t *edgewise.Tensor) (list []pictureFile) {
	rank := len(t.Shape)
	switch {
	case t.Type == edgewise.Bytes:
		for element := range edgewise.Elements(t.Data) {
			f, ok := encodedPicture(element)
			if !ok {
				return nil
			}
			list = append(list, f)
		}
	case t.Type != edgewise.Uint8:
	case rank <= 2:
		if f, ok := encodedPicture(t.Data); ok {
			list = append(list, f)
		}
	case (t.Shape[rank-1] == 1 || t.Shape[rank-1] == 3) && len(t.Data) > 0:
		size := int(t.Shape[rank-3] * t.Shape[rank-2] * t.Shape[rank-1])
		for at := 0; at < len(t.Data); at += size {
			body, err := encodePixels(t.Data[at:at+size], int(t.Shape[rank-2]), int(t.Shape[rank-1]))
			if err != nil {
				return nil
			}
			list = append(list, pictureFile{".png", body})
		}
	}
	return list
}

// encodedPicture tells whether data is the file of a picture, by its beginning.
func encodedPicture(data []byte) (f pictureFile, ok bool) {
	suffix, ok := map[string]string{
		"image/jpeg": ".jpg", "image/png": ".png", "image/gif": ".gif", "image/webp": ".webp", "image/bmp": ".bmp",
	}[http.DetectContentType(data)]
	return pictureFile{suffix, data}, ok
}

// encodePixels returns a PNG file of rows of pixels with one or three channels.
func encodePixels(data []byte, width, channels int) ([]byte, error) {
	picture := image.NewRGBA(image.Rect(0, 0, width, len(data)/(width*channels)))
	for i := 0; i*channels < len(data); i++ {
		pixel := data[i*channels : (i+1)*channels]
		c := color.RGBA{pixel[0], pixel[0], pixel[0], 255}
		if channels == 3 {
			c.G, c.B = pixel[1], pixel[2]
		}
		picture.SetRGBA(i%width, i/width, c)
	}
	var body bytes.Buffer
	err := png.Encode(&body, picture)
	return body.Bytes(), err
}

// cell returns the elements of an output as text, at most maxCellBytes.
func cell(t *edgewise.Tensor) string {
	var text []byte
	if t.Type == edgewise.Bytes {
		for element := range edgewise.Elements(t.Data) {
			text = append(append(text, element...), ' ')
			if len(text) > maxCellBytes {
				break
			}
		}
		return shortened(text)
	}
	size := int(t.Type.Size())
	for at := 0; at < len(t.Data) && len(text) <= maxCellBytes; at += size {
		if t.Type.IsFloat() {
			text = strconv.AppendFloat(text, scalar.Float(t.Type, t.Data[at:]), 'g', -1, 32)
		} else {
			text = scalar.AppendInteger(text, t.Type, t.Data[at:])
		}
		text = append(text, ' ')
	}
	return shortened(text)
}

func shortened(text []byte) string {
	if len(text) > maxCellBytes {
		return string(text[:maxCellBytes]) + "..."
	}
	return strings.TrimSuffix(string(text), " ")
}

// write writes the table, and the boxes where they are wanted.
func (a *answerTable) write(dir string) error {
	heading := append([]string{"request", "version", "arrived", "took_ms", "error", "files"}, a.heading...)
	var body bytes.Buffer
	table := csv.NewWriter(&body)
	_ = table.Write(heading) // a Buffer takes all
	for _, row := range a.rows {
		cells := make([]string, len(heading))
		for i, name := range heading {
			cells[i] = row[name]
		}
		_ = table.Write(cells)
	}
	table.Flush()
	if err := os.WriteFile(filepath.Join(dir, "answers.csv"), body.Bytes(), 0o600); err != nil || !a.coco.wanted() {
		return err
	}
	text, err := json.MarshalIndent(a.coco, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "annotations.json"), text, 0o600)
}
