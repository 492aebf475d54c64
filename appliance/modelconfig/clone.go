package modelconfig

import (
	"reflect"

	"github.com/edgewise-ai/edgewise"
)

// clone copies m deeply. In the copy no slice and no map is nil, so that its JSON form holds [] and {}, and no
// enumeration is empty: protobuf's default is its first name.
func clone(m *edgewise.Model) *edgewise.Model {
	c := &edgewise.Model{}
	fill(reflect.ValueOf(c).Elem(), reflect.ValueOf(m).Elem())
	return c
}

// fill copies from into to, which is settable and of the same type.
func fill(to, from reflect.Value) {
	switch from.Kind() {
	case reflect.Struct:
		for i := range from.NumField() {
			fill(to.Field(i), from.Field(i))
		}
		defaultNames(to)
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			fill(to.Elem(), from.Elem())
		}
	case reflect.Slice:
		to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			fill(to.Index(i), from.Index(i))
		}
	case reflect.Map:
		to.Set(reflect.MakeMapWithSize(from.Type(), from.Len()))
		for _, key := range from.MapKeys() {
			value := reflect.New(from.Type().Elem()).Elem()
			fill(value, from.MapIndex(key))
			to.SetMapIndex(key, value)
		}
	default:
		to.Set(from)
	}
}

// defaultNames gives empty enumerations in a message their first name.
func defaultNames(message reflect.Value) {
	for i := range message.NumField() {
		f := message.Type().Field(i)
		if f.Type.Kind() != reflect.String || message.Field(i).Len() > 0 {
			continue
		}
		names := schema.Enums[f.Type.Name()]
		if names == nil {
			names = schema.Enums[message.Type().Name()+"."+f.Tag.Get("json")]
		}
		if names != nil {
			message.Field(i).SetString(names[0])
		}
	}
}
