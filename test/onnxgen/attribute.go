package onnxgen

// Attribute is a named constant of a node: its value's field and type.
type Attribute struct {
	Name  string
	Type  int64    // AttributeProto.AttributeType
	Value *Message // the fields that hold the value
}

// Message returns the attribute in its wire form.
func (a *Attribute) Message() *Message {
	return new(Message).Text(1, a.Name).Raw(a.Value.all()...).Int(20, a.Type)
}

// IntAttribute makes a number.
func IntAttribute(name string, v int64) Attribute {
	return Attribute{name, 2, new(Message).Int(3, v)}
}

// IntsAttribute makes a list of numbers.
func IntsAttribute(name string, values ...int64) Attribute {
	m := new(Message)
	for _, v := range values {
		m.Int(8, v)
	}
	return Attribute{name, 7, m}
}

// TensorAttribute makes a tensor.
func TensorAttribute(name string, t Tensor) Attribute {
	return Attribute{name, 4, new(Message).Nested(5, t.Message())}
}

// GraphAttribute makes a graph, such as the body of a Loop.
func GraphAttribute(name string, g Graph) Attribute {
	return Attribute{name, 5, new(Message).Nested(6, g.Message())}
}
