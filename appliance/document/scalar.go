package document

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

const wantText = "text"

func (d *decoder) scalar(n *Node, v reflect.Value, path string, enum []string) {
	switch v.Kind() {
	case reflect.Bool:
		d.boolean(n, v, path)
	case reflect.String:
		d.str(n, v, path, enum)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		d.signed(n, v, path)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		d.unsigned(n, v, path)
	case reflect.Float32, reflect.Float64:
		d.float(n, v, path)
	default:
		d.problem(n.Line, "%s: a Go %s cannot be read from a document", path, v.Type())
	}
}

func (d *decoder) boolean(n *Node, v reflect.Value, path string) {
	switch {
	case n.Kind == Bool && n.Text == "true",
		n.Kind == Name && (n.Text == "true" || n.Text == "True" || n.Text == "t"),
		d.doc.Syntax == Pbtxt && n.Kind == Number && n.Text == "1":
		v.SetBool(true)
	case n.Kind == Bool,
		n.Kind == Name && (n.Text == "false" || n.Text == "False" || n.Text == "f"),
		d.doc.Syntax == Pbtxt && n.Kind == Number && n.Text == "0":
		v.SetBool(false)
	default:
		d.want(n, path, "true or false")
	}
}

func (d *decoder) str(n *Node, v reflect.Value, path string, enum []string) {
	if enum != nil {
		d.name(n, v, path, enum)
		return
	}
	if n.Kind != String {
		d.want(n, path, wantText)
		return
	}
	v.SetString(n.Text)
}

// name decodes the name or the number of an enumeration.
func (d *decoder) name(n *Node, v reflect.Value, path string, enum []string) {
	want := "one of " + strings.Join(enum, ", ")
	switch n.Kind {
	case Number:
		i, err := strconv.ParseInt(n.Text, 0, 32)
		if err != nil || i < 0 || int(i) >= len(enum) {
			d.want(n, path, want)
			return
		}
		v.SetString(enum[i])
	case Name, String:
		if !d.bare(n, path) {
			return
		}
		if !slices.Contains(enum, n.Text) {
			d.problem(n.Line, "%s: unknown name %s: want %s%s", path, quote(n.Text), want, Suggest(n.Text, enum))
			return
		}
		v.SetString(n.Text)
	default:
		d.want(n, path, want)
	}
}

// bare tells whether an enumeration's name is written as the syntax wants it: protobuf's parsers refuse quotes.
func (d *decoder) bare(n *Node, path string) bool {
	if d.doc.Syntax == Pbtxt && n.Kind == String {
		d.problem(n.Line, "%s: write the name %s without quotes", path, clip(n.Text))
		return false
	}
	return true
}

func (d *decoder) signed(n *Node, v reflect.Value, path string) {
	bits := v.Type().Bits()
	i, err := strconv.ParseInt(d.integer(n), 0, bits)
	if err != nil {
		least, most := int64(math.MinInt64)>>(64-bits), int64(math.MaxInt64)>>(64-bits)
		d.want(n, path, fmt.Sprintf("an integer from %d to %d", least, most))
		return
	}
	v.SetInt(i)
}

func (d *decoder) unsigned(n *Node, v reflect.Value, path string) {
	bits := v.Type().Bits()
	i, err := strconv.ParseUint(strings.TrimPrefix(d.integer(n), "+"), 0, bits)
	if err != nil {
		d.want(n, path, fmt.Sprintf("an integer from 0 to %d", uint64(math.MaxUint64)>>(64-bits)))
		return
	}
	v.SetUint(i)
}

// integer returns the text of a node that may be an integer, "" when it cannot be one.
func (d *decoder) integer(n *Node) string {
	text := n.Text
	quoted := n.Kind == String && d.doc.Syntax != Pbtxt
	if n.Kind != Number && !quoted {
		return ""
	}
	if quoted && strings.Trim(strings.TrimPrefix(text, "-"), "0123456789") != "" {
		return ""
	}
	return text
}

func (d *decoder) float(n *Node, v reflect.Value, path string) {
	f, err := d.parseFloat(n, v.Type().Bits())
	switch {
	case errors.Is(err, strconv.ErrRange):
		d.want(n, path, fmt.Sprintf("a number that fits in %d bits", v.Type().Bits()))
	case err != nil:
		d.want(n, path, "a number")
	default:
		v.SetFloat(f)
	}
}

func (d *decoder) parseFloat(n *Node, bits int) (float64, error) {
	text, negative := strings.CutPrefix(n.Text, "-")
	word := strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(text, "+"), "."))
	switch {
	case n.Kind == List || n.Kind == Map:
		return 0, strconv.ErrSyntax
	case word == "nan":
		return math.NaN(), nil
	case floatName(word) && negative:
		return math.Inf(-1), nil
	case floatName(word):
		return math.Inf(1), nil
	case n.Kind != Number:
		return 0, strconv.ErrSyntax
	}
	if i, err := strconv.ParseInt(n.Text, 0, 64); err == nil {
		return float64(i), nil
	}
	return strconv.ParseFloat(n.Text, bits)
}

func (d *decoder) duration(n *Node, v reflect.Value, path string) {
	t, err := time.ParseDuration(n.Text)
	if err != nil || (n.Kind != String && n.Kind != Number) {
		d.want(n, path, "a time with its unit, such as 30s or 1h30m")
		return
	}
	v.SetInt(int64(t))
}

// text decodes a node into a type that reads text.
func (d *decoder) text(n *Node, v reflect.Value, path string, into encoding.TextUnmarshaler) {
	named, numbered := into.(encoding.TextMarshaler)
	switch {
	case n.Kind == List || n.Kind == Map || n.Kind == Null:
		d.want(n, path, wantText)
		return
	case numbered && v.CanUint() && n.Kind == Number:
		d.numbered(n, v, path, named)
		return
	case numbered && v.CanUint() && !d.bare(n, path):
		return
	}
	if err := into.UnmarshalText([]byte(n.Text)); err != nil {
		d.problem(n.Line, "%s: %v", path, err)
	}
}

// numbered decodes the number of an enumeration that knows its names: a number without a name is refused.
func (d *decoder) numbered(n *Node, v reflect.Value, path string, named encoding.TextMarshaler) {
	i, err := strconv.ParseUint(n.Text, 0, v.Type().Bits())
	before := v.Uint()
	if err == nil {
		v.SetUint(i)
		var name []byte
		if name, err = named.MarshalText(); err == nil {
			err = reflect.New(v.Type()).Interface().(encoding.TextUnmarshaler).UnmarshalText(name)
		}
	}
	if err != nil {
		v.SetUint(before)
		d.problem(n.Line, "%s: no name has the number %s", path, clip(n.Text))
	}
}
