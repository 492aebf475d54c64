package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise/pattern"
)

// set reads text, from the environment or a flag, into a field.
func set(field any, text string) (err error) {
	switch f := field.(type) {
	case *string:
		*f = text
	case *bool:
		switch text {
		case "true":
			*f = true
		case "false":
			*f = false
		default:
			err = fmt.Errorf("want true or false, got %.40q", text)
		}
	case *int:
		var n int
		if n, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("want a whole number, got %.40q", text)
		}
		*f = n
	case *Size:
		err = f.UnmarshalText([]byte(text))
	case *time.Duration:
		var d time.Duration
		if d, err = time.ParseDuration(text); err != nil {
			return fmt.Errorf("want a time with its unit, such as 30s or 1h30m, got %.40q", text)
		}
		*f = d
	case *[]string:
		*f, err = list(text)
	default:
		err = errors.New("BUG: a key of an unknown type")
	}
	return err
}

// list reads names separated by commas, or a list of texts in JSON, where names may hold commas themselves.
func list(text string) ([]string, error) {
	names := []string{}
	if strings.HasPrefix(text, "[") {
		if err := json.Unmarshal([]byte(text), &names); err != nil {
			return nil, fmt.Errorf("want names separated by commas, or a list of texts in JSON, got %.80q", text)
		}
		return names, nil
	}
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names, nil
}

var plain = pattern.New(`^[a-zA-Z/.][a-zA-Z0-9/._-]*$`)

// text writes a field's value as the file does.
func text(field any) string {
	switch f := field.(type) {
	case *string:
		return quoted(*f)
	case *time.Duration:
		return shortDuration(*f)
	case *bool:
		return strconv.FormatBool(*f)
	case *int:
		return strconv.Itoa(*f)
	case *Size:
		return f.String()
	case *[]string:
		names := make([]string, len(*f))
		for i, name := range *f {
			names[i] = quoted(name)
		}
		return "[" + strings.Join(names, ", ") + "]"
	}
	return ""
}

// userIn and queryIn are where URLs hold secrets, in the text of a value.
var (
	userIn  = pattern.New(`://[^/\s"]*@`)
	queryIn = pattern.New(`(://[^?#\s"]*[?#])[^\s"]+`)
)

// withoutSecrets is the text of a value without the users, passwords and queries of its URLs: problems are logged.
func withoutSecrets(text string) string {
	return queryIn.ReplaceAllString(userIn.ReplaceAllString(text, "://...@"), "${1}...")
}

// quoted writes a string as YAML. Words that YAML would take for something else are quoted.
func quoted(s string) string {
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n", ".inf", ".nan", "":
		return strconv.Quote(s)
	}
	if plain.MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}

// shortDuration writes 5m, where String writes 5m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if d == 0 {
		return "0s"
	}
	if short, ok := strings.CutSuffix(s, "m0s"); ok {
		s = short + "m"
	}
	if short, ok := strings.CutSuffix(s, "h0m"); ok {
		s = short + "h"
	}
	return s
}

// Write writes c as a configuration file, every key with its meaning, default, unit and limits beside it.
func Write(w io.Writer, c Config) error {
	var b strings.Builder
	section := ""
	for _, key := range c.Keys() {
		indent, name := "", key.Name
		if parent, child, ok := strings.Cut(key.Name, "."); ok {
			if parent != section {
				fmt.Fprintf(&b, "\n%s:\n", parent)
				section = parent
			}
			indent, name = "  ", child
		}
		comment(&b, indent, key.Doc)
		limits := fmt.Sprintf("Default %s; %s", key.Default, key.Unit)
		if key.Want != "" {
			limits += "; " + key.Want
		}
		comment(&b, indent, limits+".")
		fmt.Fprintf(&b, "%s%s: %s\n", indent, name, key.Value)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// lineWidth is where comments of the file are wrapped.
const lineWidth = 120

// comment writes a comment, wrapped between words.
func comment(b *strings.Builder, indent, doc string) {
	line := indent + "#"
	for word := range strings.FieldsSeq(doc) {
		if len(line)+1+len(word) > lineWidth {
			b.WriteString(line + "\n")
			line = indent + "#"
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}
