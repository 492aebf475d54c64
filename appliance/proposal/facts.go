package proposal

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// Facts are what a model's files say beside its signature.
type Facts struct {
	Names    []string          // of classes, in their order
	Metadata map[string]string // of the model's file
	Filters  bool              // the model itself drops boxes that overlap
}

// Bounds of names of classes. More are not used at all: names that end in the middle would mislead.
const (
	maxNames     = 30_000
	maxNameBytes = 200_000
)

// Read returns the facts of a model whose files lie in a folder. inspection may be nil.
func Read(dir string, m *edgewise.Model, inspection *edgewise.Inspection) Facts {
	f := Facts{Metadata: map[string]string{}}
	if inspection != nil {
		if inspection.Metadata != nil {
			f.Metadata = inspection.Metadata
		}
		for op := range inspection.Operators {
			f.Filters = f.Filters || strings.HasSuffix(op, "NonMaxSuppression")
		}
	}
	f.Names = fileNames(dir, m)
	// Ultralytics writes names; others have used these.
	for _, key := range []string{"names", "classes", "class_names", "labels", "id2label", "character"} {
		if len(f.Names) == 0 {
			f.Names = ParseNames(f.Metadata[key])
		}
	}
	return f
}

// fileNames reads the label file of the first output that has one, else a file beside the model that is called like one.
func fileNames(dir string, m *edgewise.Model) []string {
	var file string
	for _, o := range m.Output {
		if file == "" && o.LabelFilename != "" {
			file = o.LabelFilename
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if file == "" && e.Type().IsRegular() && labelFile(e.Name()) {
			file = e.Name()
		}
	}
	info, err := os.Stat(filepath.Join(dir, file))
	if file == "" || err != nil || info.Size() > maxNameBytes {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return nil
	}
	return bounded(strings.Split(strings.TrimRight(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n"), "\n"))
}

func labelFile(name string) bool {
	return strings.HasSuffix(name, ".names") ||
		strings.HasSuffix(name, ".txt") && contains(name, "label", "class", "names", "synset", "characters", "dict")
}

func bounded(list []string) []string {
	bytes := len(list)
	for _, name := range list {
		bytes += len(name)
	}
	if len(list) > maxNames || bytes > maxNameBytes {
		return nil
	}
	return list
}

// ParseNames reads names of classes as metadata has them: a dictionary by number or a list, of Python or JSON, or a
// text with a name in each line or between commas. Any other text has no names.
func ParseNames(text string) []string {
	text = strings.TrimSpace(text)
	if text == "" || len(text) > 4*maxNameBytes {
		return nil
	}
	switch text[0] {
	case '{':
		return bounded(dictionary(text[1:]))
	case '[', '(':
		return bounded(quoted(text[1:]))
	}
	split := ","
	if strings.Contains(text, "\n") {
		split = "\n"
	}
	list := strings.Split(text, split)
	if split == "," {
		for i, name := range list {
			list[i] = strings.TrimSpace(name)
		}
	}
	if len(list) < 2 {
		return nil
	}
	return bounded(list)
}

// dictionary reads 0: 'cat', 1: "dog" with keys from 0 on, in any order; keys may be quoted.
func dictionary(text string) []string {
	found := map[int]string{}
	for {
		key, rest, ok := strings.Cut(text, ":")
		if !ok {
			break
		}
		number := strings.Trim(key, " ,\n\t\"'")
		name, after, ok := literal(rest)
		n := 0
		for _, c := range []byte(number) {
			ok = ok && c >= '0' && c <= '9' && n < maxNames
			n = 10*n + int(c-'0')
		}
		if !ok || number == "" {
			return nil
		}
		found[n], text = name, after
	}
	list := make([]string, 0, len(found))
	for n := range len(found) {
		name, ok := found[n]
		if !ok {
			return nil
		}
		list = append(list, name)
	}
	return list
}

// quoted reads 'cat', "dog".
func quoted(text string) []string {
	var list []string
	for {
		name, rest, ok := literal(strings.TrimLeft(text, " ,\n\t"))
		if !ok {
			return list
		}
		list, text = append(list, name), rest
	}
}

// literal reads a text in single or double quotes at the beginning of s.
func literal(s string) (text, rest string, ok bool) {
	s = strings.TrimLeft(s, " \n\t")
	if s == "" || s[0] != '\'' && s[0] != '"' {
		return "", s, false
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == s[0]:
			return b.String(), s[i+1:], true
		case s[i] == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		default:
			b.WriteByte(s[i])
		}
	}
	return "", s, false
}

// task is what Ultralytics says that the model is for: detect, segment, pose, obb or classify; empty: it does not say.
func (f Facts) task() string {
	task := f.Metadata["task"]
	if slices.Contains([]string{"detect", "segment", "pose", "obb", "classify"}, task) {
		return task
	}
	return ""
}
