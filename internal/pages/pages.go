// Package pages turns a list that is read page by page into one sequence.
package pages

import "iter"

// All yields the elements of all pages. page returns the page at a cursor, and the cursor of the
// next page, or the zero cursor at the end. An error is yielded with the zero element, and ends
// the sequence.
func All[T any, C comparable](from C, page func(at C) ([]T, C, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		var end C
		for at, more := from, true; more; more = at != end {
			elements, next, err := page(at)
			if err != nil {
				yield(none, err)
				return
			}
			for _, e := range elements {
				if !yield(e, nil) {
					return
				}
			}
			at = next
		}
	}
}
