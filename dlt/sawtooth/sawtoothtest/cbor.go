package sawtoothtest

import (
	"encoding/binary"
	"errors"
	"unicode/utf8"
)

// These functions read and write the part of CBOR (RFC 8949) that the intkey family uses: maps of
// definite length from texts to texts and to numbers that are not negative.

// Major types of CBOR.
const (
	cborNumber = 0
	cborText   = 3
	cborMap    = 5
)

var errCBOR = errors.New("not a CBOR map of texts and of numbers that are not negative")

// appendCBORHead appends the head of a value, in its shortest form.
func appendCBORHead(to []byte, major byte, n uint64) []byte {
	switch major <<= 5; {
	case n < 24:
		return append(to, major|byte(n))
	case n < 1<<8:
		return append(to, major|24, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(to, major|25), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(to, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(to, major|27), n)
}

func appendCBORString(to []byte, s string) []byte {
	return append(appendCBORHead(to, cborText, uint64(len(s))), s...)
}

// readCBORHead reads the head of a value, in any form.
func readCBORHead(from []byte) (major byte, n uint64, rest []byte, err error) {
	if len(from) == 0 {
		return 0, 0, nil, errCBOR
	}
	major, n, rest = from[0]>>5, uint64(from[0]&31), from[1:]
	if n < 24 {
		return major, n, rest, nil
	}
	size := 1 << (n - 24)
	if n > 27 || len(rest) < size {
		return 0, 0, nil, errCBOR
	}
	n = 0
	for _, b := range rest[:size] {
		n = n<<8 | uint64(b)
	}
	return major, n, rest[size:], nil
}

// readCBORValue reads a text or a number.
func readCBORValue(from []byte) (value any, rest []byte, err error) {
	major, n, rest, err := readCBORHead(from)
	switch {
	case err != nil:
		return nil, nil, err
	case major == cborNumber:
		return n, rest, nil
	case major != cborText || n > uint64(len(rest)) || !utf8.Valid(rest[:n]):
		return nil, nil, errCBOR
	}
	return string(rest[:n]), rest[n:], nil
}

// readCBORMap reads a map, after which nothing may follow.
func readCBORMap(from []byte) (map[string]any, error) {
	major, n, rest, err := readCBORHead(from)
	if err != nil || major != cborMap || n > uint64(len(rest)) {
		return nil, errCBOR
	}
	read := make(map[string]any, n)
	for range n {
		var key, value any
		if key, rest, err = readCBORValue(rest); err != nil {
			return nil, err
		}
		name, is := key.(string)
		if !is {
			return nil, errCBOR
		}
		if value, rest, err = readCBORValue(rest); err != nil {
			return nil, err
		}
		read[name] = value
	}
	if len(rest) > 0 {
		return nil, errCBOR
	}
	return read, nil
}
