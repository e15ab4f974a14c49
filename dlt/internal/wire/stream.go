package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Stream reads a JSON document piece by piece, with one piece in memory at a time. The document
// may have any length, so a long list does not hide the values after it. A method that returns odd
// has read a well-formed value to its end: odd says that the value has another kind than the
// wanted one, and the next value can be read. After err no value can be read.
type Stream struct {
	decoder       *json.Decoder
	boundedReader *BoundedReader
	maxPieceBytes int64
}

// NewStream returns a reader of the document in r. A piece of it may have at most most bytes.
func NewStream(r io.Reader, most int64) *Stream {
	b := &BoundedReader{R: r, Left: most}
	return &Stream{decoder: json.NewDecoder(b), boundedReader: b, maxPieceBytes: most}
}

// Value decodes the next value, which is one piece.
func (s *Stream) Value(into any) (odd, err error) {
	s.boundedReader.Left = s.maxPieceBytes
	err = s.decoder.Decode(into)
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return err, nil
	}
	return nil, UnexpectedEOF(err)
}

// Object reads an object. field gets each key, and reads its value with a method of the Stream.
// null counts as an object without keys.
func (s *Stream) Object(field func(key string) error) (odd, err error) {
	open, odd, err := s.openDelim('{', "object")
	if !open {
		return odd, err
	}
	for s.hasMore() {
		key, err := s.nextToken()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string) // in an object the decoder returns only strings as keys
		if err := field(name); err != nil {
			return nil, err
		}
	}
	_, err = s.nextToken()
	return nil, err
}

// List reads a list. each reads one element with a method of the Stream.
func (s *Stream) List(each func() error) (odd, err error) {
	open, odd, err := s.openDelim('[', "list")
	if !open {
		return odd, err
	}
	for s.hasMore() {
		if err := each(); err != nil {
			return nil, err
		}
	}
	_, err = s.nextToken()
	return nil, err
}

// Skip reads a value of any kind and size, and keeps none of it.
func (s *Stream) Skip() error {
	t, err := s.nextToken()
	if err != nil {
		return err
	}
	return s.readRest(t)
}

// readRest reads to the end of the value that begins with the token t.
func (s *Stream) readRest(t json.Token) error {
	depth := 0
	for {
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
		var err error
		if t, err = s.nextToken(); err != nil {
			return err
		}
	}
}

// openDelim reads the beginning of a value. If the value is of another kind, it reads all of it.
func (s *Stream) openDelim(want json.Delim, kind string) (openDelim bool, odd, err error) {
	at := s.decoder.InputOffset()
	t, err := s.nextToken()
	switch {
	case err != nil:
		return false, nil, err
	case t == want:
		return true, nil, nil
	}
	return false, fmt.Errorf("the answer has no %s at byte %d", kind, at), s.readRest(t)
}

func (s *Stream) nextToken() (json.Token, error) {
	s.boundedReader.Left = s.maxPieceBytes
	t, err := s.decoder.Token()
	return t, UnexpectedEOF(err)
}

func (s *Stream) hasMore() bool {
	s.boundedReader.Left = s.maxPieceBytes
	return s.decoder.More()
}
