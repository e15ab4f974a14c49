package evmtx

import (
	"encoding/binary"
	"errors"
	"math/big"
	"math/bits"
	"strconv"

	"github.com/dltbatch/dltbatch/batch"
)

// RLP has two kinds of items: strings of bytes, and lists of items. The length of an item comes
// before it. A length has one canonical form, the shortest one.

// The mistakes that the reader of RLP finds.
var (
	errEndsEarly    = errors.New("the bytes end before the item does")
	errNotCanonical = errors.New("not the shortest form of a length or number")
	errWrongKind    = errors.New("a list where a string belongs, or the reverse")
	errTooLong      = errors.New("a string or number that is too long")
	errExtraItems   = errors.New("more items than the list has fields")
	errMissingItems = errors.New("fewer items than the list has fields")
)

// splitFirstItem reads the first item of b. rest is the bytes after it.
func splitFirstItem(b []byte) (list bool, content, rest []byte, err error) {
	if len(b) == 0 {
		return false, nil, nil, errEndsEarly
	}
	first, b1 := b[0], b[1:]
	var size uint64
	switch {
	case first < 0x80:
		return false, b[:1], b1, nil
	case first < 0xb8:
		size = uint64(first - 0x80)
	case first < 0xc0:
		size, b1, err = readLongSize(b1, int(first-0xb7))
	case first < 0xf8:
		list, size = true, uint64(first-0xc0)
	default:
		list = true
		size, b1, err = readLongSize(b1, int(first-0xf7))
	}
	switch {
	case err != nil:
		return list, nil, nil, err
	case size > uint64(len(b1)):
		return list, nil, nil, errEndsEarly
	case !list && size == 1 && first < 0xb8 && b1[0] < 0x80:
		return list, nil, nil, errNotCanonical // a single byte below 0x80 is its own encoding
	}
	return list, b1[:size], b1[size:], nil
}

func readLongSize(b []byte, n int) (uint64, []byte, error) {
	if len(b) < n {
		return 0, nil, errEndsEarly
	}
	var size uint64
	for _, c := range b[:n] {
		size = size<<8 | uint64(c)
	}
	if b[0] == 0 || size <= 55 {
		return 0, nil, errNotCanonical
	}
	return size, b[n:], nil
}

// rlpReader reads the items of a list in their order. After an error it reads nothing more; err
// and field are those of the first error.
type rlpReader struct {
	rest  []byte
	field string
	err   error
}

func (r *rlpReader) fail(field string, err error) {
	if r.err == nil {
		r.field, r.err = field, err
	}
}

// refuse is fail for an item whose value is wrong.
func (r *rlpReader) refuse(field, value, want string) {
	r.fail(field, &batch.InputError{Field: field, Value: value, Want: want, Err: ErrEncoding})
}

// refuseLength is refuse for a string of another length than it must have.
func (r *rlpReader) refuseLength(field string, b []byte, want int) {
	r.refuse(field, strconv.Itoa(len(b))+" bytes", strconv.Itoa(want)+" bytes")
}

func (r *rlpReader) nextItem(field string, list bool) []byte {
	if r.err != nil {
		return nil
	}
	if len(r.rest) == 0 {
		r.fail(field, errMissingItems)
		return nil
	}
	is, content, rest, err := splitFirstItem(r.rest)
	if err == nil && is != list {
		err = errWrongKind
	}
	if err != nil {
		r.fail(field, err)
		return nil
	}
	r.rest = rest
	return content
}

func (r *rlpReader) bytes(field string) []byte { return r.nextItem(field, false) }

// list reads a list, and calls read for each item. read reads one item from part.
func (r *rlpReader) list(field string, read func(part *rlpReader, i int)) {
	part := rlpReader{rest: r.nextItem(field, true)}
	for i := 0; len(part.rest) > 0 && part.err == nil; i++ {
		read(&part, i)
	}
	if part.err != nil {
		r.fail(part.field, part.err)
	}
}

// tuple reads a list with a fixed number of fields.
func (r *rlpReader) tuple(field string, read func(part *rlpReader)) {
	part := rlpReader{rest: r.nextItem(field, true)}
	if r.err != nil {
		return
	}
	read(&part)
	if part.refuseRest(field); part.err != nil {
		r.fail(part.field, part.err)
	}
}

// refuseRest makes further bytes an error.
func (r *rlpReader) refuseRest(field string) {
	if len(r.rest) > 0 {
		r.fail(field, errExtraItems)
	}
}

func (r *rlpReader) number(field string, size int) []byte {
	b := r.bytes(field)
	switch {
	case len(b) > size:
		r.fail(field, errTooLong)
	case len(b) > 0 && b[0] == 0:
		r.fail(field, errNotCanonical)
	default:
		return b
	}
	return nil
}

func (r *rlpReader) uint(field string) uint64 {
	var v uint64
	for _, c := range r.number(field, 8) {
		v = v<<8 | uint64(c)
	}
	return v
}

func (r *rlpReader) big(field string) *big.Int { return new(big.Int).SetBytes(r.number(field, 32)) }

// fixedBytes reads a string whose length is that of out.
func (r *rlpReader) fixedBytes(field string, out []byte) {
	b := r.bytes(field)
	if r.err == nil && len(b) != len(out) {
		r.refuseLength(field, b, len(out))
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
	return append(append(b, base+55+byte(n)), shortestBytes(uint64(size))...)
}

func shortestBytes(v uint64) []byte {
	b := binary.BigEndian.AppendUint64(nil, v)
	return b[bits.LeadingZeros64(v)/8:]
}

func appendUint(b []byte, v uint64) []byte { return appendBytes(b, shortestBytes(v)) }

// appendBig appends a number; nil counts as 0.
func appendBig(b []byte, v *big.Int) []byte {
	if v == nil {
		return appendBytes(b, nil)
	}
	return appendBytes(b, v.Bytes())
}
