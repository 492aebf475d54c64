package edgewise

import (
	"strings"
	"testing"
)

func TestCheckUserSpeaksOfUsers(t *testing.T) {
	if err := CheckUser("ann"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"", "Ann Smith", "ann,bob"} {
		if err := CheckUser(name); err == nil || !strings.HasPrefix(err.Error(), "user name ") {
			t.Errorf("CheckUser(%q) = %v", name, err)
		}
	}
}

func TestCheckName(t *testing.T) {
	tests := []struct {
		name string
		give string
		want string // part of the error; empty: allowed
	}{
		{"plain", "cat", ""},
		{"all that is allowed", "_Az09.-,x", ""},
		{"begins with a comma", ",x", `character ',' at byte 0`},
		{"longest", strings.Repeat("n", MaxNameBytes), ""},
		{"empty", "", "has 0 bytes: want 1 to 128"},
		{"too long", strings.Repeat("n", 300), "has 300 bytes: want 1 to 128"},
		{"parent", "..", `character '.' at byte 0`},
		{"hidden", ".git", `character '.' at byte 0`},
		{"a flag", "-rf", `character '-' at byte 0`},
		{"slash", "a/b", `character '/' at byte 1`},
		{"backslash", `a\b`, `character '\\' at byte 1`},
		{"nul", "a\x00b", `character '\x00' at byte 1`},
		{"newline", "a\nb", `character '\n' at byte 1`},
		{"space", "a b", `character ' ' at byte 1`},
		{"percent", "a%2fb", `character '%' at byte 1`},
		{"cyrillic a", "c\u0430t", `character 'а' at byte 1`},
		{"full width", "\uff43at", `character 'ｃ' at byte 0`},
		{"zero width", "cat\u200b", `character '\u200b' at byte 3`},
		{"combining", "cafe\u0301", `character '́' at byte 4`},
		{"not utf-8", "a\xff", `character '�' at byte 1`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := CheckName(test.give)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("CheckName(%q) = %v, want %q", test.give, err, test.want)
			}
		})
	}
}

func TestLabelsAreNamesButNotNumbers(t *testing.T) {
	if err := CheckLabel("canary-2"); err != nil {
		t.Error(err)
	}
	for _, label := range []string{"7", "007", "a/b", "", "a,b"} {
		if err := CheckLabel(label); err == nil {
			t.Errorf("label %q is allowed", label)
		}
	}
}

func TestCheckPath(t *testing.T) {
	tests := []struct {
		name string
		give string
		want string
	}{
		{"file", "model.onnx", ""},
		{"below", "warmup/image 1 (größe).bin", ""},
		{"deepest", "a/b/c/d/e/f/g/h", ""},
		{"empty", "", "has 0 bytes"},
		{"too long", strings.Repeat("abc/", 300), "has 1200 bytes: want 1 to 1024"},
		{"too deep", "a/b/c/d/e/f/g/h/i", "is 9 folders deep: at most 8"},
		{"long segment", strings.Repeat("n", 256), "a segment has 256 bytes, at most 255"},
		{"absolute", "/etc/passwd", "want a clean path inside the model's folder"},
		{"parent", "../x", "want a clean path"},
		{"parent inside", "a/../../x", "want a clean path"},
		{"parent alone", "..", "want a clean path"},
		{"here", ".", "want a clean path"},
		{"double slash", "a//b", "want a clean path"},
		{"trailing slash", "a/", "want a clean path"},
		{"backslash", `a\b`, "control characters, backslashes and invalid UTF-8"},
		{"nul", "a\x00", "control characters"},
		{"not utf-8", "a\xff", "invalid UTF-8"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := CheckPath(test.give)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("CheckPath(%q) = %v, want %q", test.give, err, test.want)
			}
		})
	}
}

func TestModelIDInMessages(t *testing.T) {
	if got := (ModelID{Name: "cat"}).String() + (ModelID{Name: "cat", Version: 3}).String(); got != `"cat""cat" version 3` {
		t.Error(got)
	}
}
