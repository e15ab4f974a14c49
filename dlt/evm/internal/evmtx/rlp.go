package evmtx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"math/bits"
)

// RLP has two kinds of items, strings of bytes and lists of items, each with its length before
// it. A length has one canonical form: the shortest.

// errRLP are the mistakes that the reader of RLP finds.
var (
	errShort     = errors.New("the bytes end before the item does")
	errCanonical = errors.New("not the shortest form of a length or number")
	errKind      = errors.New("a list where a string belongs, or the reverse")
	errTooLong   = errors.New("a string or number that is too long")
	errMore      = errors.New("more items than the list has fields")
	errFew       = errors.New("fewer items than the list has fields")
)

// split reads the first item of b.
func split(b []byte) (list bool, content, rest []byte, err error) {
	if len(b) == 0 {
		return false, nil, nil, errShort
	}
	first, b1 := b[0], b[1:]
	var size uint64
	switch {
	case first < 0x80:
		return false, b[:1], b1, nil
	case first < 0xb8:
		size = uint64(first - 0x80)
	case first < 0xc0:
		size, b1, err = longSize(b1, int(first-0xb7))
	case first < 0xf8:
		list, size = true, uint64(first-0xc0)
	default:
		list = true
		size, b1, err = longSize(b1, int(first-0xf7))
	}
	switch {
	case err != nil:
		return list, nil, nil, err
	case size > uint64(len(b1)):
		return list, nil, nil, errShort
	case !list && size == 1 && first < 0xb8 && b1[0] < 0x80:
		return list, nil, nil, errCanonical // such a byte stands for itself
	}
	return list, b1[:size], b1[size:], nil
}

func longSize(b []byte, n int) (uint64, []byte, error) {
	if len(b) < n {
		return 0, nil, errShort
	}
	var size uint64
	for _, c := range b[:n] {
		size = size<<8 | uint64(c)
	}
	if b[0] == 0 || size <= 55 {
		return 0, nil, errCanonical
	}
	return size, b[n:], nil
}

// reader reads the items of a list in their order. After an error it reads nothing, and err and
// field name the first fault.
type reader struct {
	rest  []byte
	field string
	err   error
}

func (r *reader) fail(field string, err error) {
	if r.err == nil {
		r.field, r.err = field, err
	}
}

func (r *reader) item(field string, list bool) []byte {
	if r.err != nil {
		return nil
	}
	if len(r.rest) == 0 {
		r.fail(field, errFew)
		return nil
	}
	is, content, rest, err := split(r.rest)
	if err == nil && is != list {
		err = errKind
	}
	if err != nil {
		r.fail(field, err)
		return nil
	}
	r.rest = rest
	return content
}

func (r *reader) bytes(field string) []byte { return r.item(field, false) }

// list reads a list and calls read for as long as it has items. part, in read, reads one of them.
func (r *reader) list(field string, read func(part *reader, i int)) {
	part := reader{rest: r.item(field, true)}
	for i := 0; len(part.rest) > 0 && part.err == nil; i++ {
		read(&part, i)
	}
	if part.err != nil {
		r.fail(part.field, part.err)
	}
}

// tuple reads a list with a fixed number of fields.
func (r *reader) tuple(field string, read func(part *reader)) {
	part := reader{rest: r.item(field, true)}
	if r.err != nil {
		return
	}
	read(&part)
	if part.end(field); part.err != nil {
		r.fail(part.field, part.err)
	}
}

// end refuses further bytes.
func (r *reader) end(field string) {
	if len(r.rest) > 0 {
		r.fail(field, errMore)
	}
}

func (r *reader) number(field string, size int) []byte {
	b := r.bytes(field)
	switch {
	case len(b) > size:
		r.fail(field, errTooLong)
	case len(b) > 0 && b[0] == 0:
		r.fail(field, errCanonical)
	default:
		return b
	}
	return nil
}

func (r *reader) uint(field string) uint64 {
	var v uint64
	for _, c := range r.number(field, 8) {
		v = v<<8 | uint64(c)
	}
	return v
}

func (r *reader) big(field string) *big.Int { return new(big.Int).SetBytes(r.number(field, 32)) }

// fixed reads a string that fills out.
func (r *reader) fixed(field string, out []byte) {
	b := r.bytes(field)
	if r.err == nil && len(b) != len(out) {
		r.fail(field, fmt.Errorf("%d bytes, not %d", len(b), len(out)))
		return
	}
	copy(out, b)
}

func appendBytes(b, s []byte) []byte {
	if len(s) == 1 && s[0] < 0x80 {
		return append(b, s[0])
	}
	return append(appendSize(b, 0x80, len(s)), s...)
}

func appendList(b, items []byte) []byte { return append(appendSize(b, 0xc0, len(items)), items...) }

func appendSize(b []byte, base byte, size int) []byte {
	if size <= 55 {
		return append(b, base+byte(size))
	}
	n := (bits.Len(uint(size)) + 7) / 8
	return append(append(b, base+55+byte(n)), shortest(uint64(size))...)
}

func shortest(v uint64) []byte {
	b := binary.BigEndian.AppendUint64(nil, v)
	return b[bits.LeadingZeros64(v)/8:]
}

func appendUint(b []byte, v uint64) []byte { return appendBytes(b, shortest(v)) }

// appendBig takes nil for 0.
func appendBig(b []byte, v *big.Int) []byte {
	if v == nil {
		return appendBytes(b, nil)
	}
	return appendBytes(b, v.Bytes())
}
