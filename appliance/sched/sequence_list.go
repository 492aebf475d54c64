package sched

// list is a list of sequences, linked through themselves. A sequence is in one list at a time.
type list struct {
	first, last *linked
	size        int
}

// linked is a sequence's place in a list.
type linked struct {
	of         *sequence
	in         *list // nil: in none
	prev, next *linked
}

func (l *list) push(e *linked) {
	e.in, e.prev, e.next = l, l.last, nil
	if l.last == nil {
		l.first = e
	} else {
		l.last.next = e
	}
	l.last = e
	l.size++
}

// remove takes e out, if it is in this list.
func (l *list) remove(e *linked) {
	if e.in != l {
		return
	}
	if e.prev == nil {
		l.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	l.size--
	e.in, e.prev, e.next = nil, nil, nil
}

// leave takes e out of the list that it is in.
func (e *linked) leave() {
	if e.in != nil {
		e.in.remove(e)
	}
}
