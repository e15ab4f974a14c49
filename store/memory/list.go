package memory

import "sort"

// list is an ordered list that is cheap to change at both ends, where queues change. Inserting and
// removing move the elements of the shorter side.
type list[T comparable] struct {
	before func(a, b T) bool
	items  []T // items[:head] are zero
	head   int
}

func (l *list[T]) len() int        { return len(l.items) - l.head }
func (l *list[T]) at(i int) T      { return l.items[l.head+i] }
func (l *list[T]) first(n int) []T { return l.items[l.head : l.head+min(n, l.len())] }

// search returns the index of the first element that is not before e.
func (l *list[T]) search(e T) int {
	return sort.Search(l.len(), func(i int) bool { return !l.before(l.at(i), e) })
}

func (l *list[T]) insert(e T) {
	n := l.len()
	i := n
	if n > 0 && !l.before(l.at(n-1), e) { // most elements are added at the end
		i = l.search(e)
	}
	if i < n/2 && l.head > 0 {
		copy(l.items[l.head-1:], l.items[l.head:l.head+i])
		l.head--
		l.items[l.head+i] = e
		return
	}
	if l.head > n { // so large a gap is reused: the elements move down
		copy(l.items, l.items[l.head:])
		clear(l.items[n:])
		l.items, l.head = l.items[:n], 0
	}
	var none T
	l.items = append(l.items, none)
	copy(l.items[l.head+i+1:], l.items[l.head+i:])
	l.items[l.head+i] = e
}

// remove removes e, if the list has it.
func (l *list[T]) remove(e T) {
	i := l.search(e)
	n := l.len()
	var none T
	if i == n || l.at(i) != e {
		return
	}
	if i < n/2 {
		copy(l.items[l.head+1:], l.items[l.head:l.head+i])
		l.items[l.head] = none
		l.head++
		return
	}
	copy(l.items[l.head+i:], l.items[l.head+i+1:])
	l.items[len(l.items)-1] = none
	l.items = l.items[:len(l.items)-1]
	if l.len() == 0 {
		l.items, l.head = l.items[:0], 0
	}
}
