// Package transcript parses records of the answers of real nodes, and compares an answer in such a
// record with the answer of another server.
//
// A record is text. It has one exchange after another, remarks between them, and observations of a
// batch or of a WebSocket. [Parse] knows the two forms of this project's records:
//
//	> POST /batches  content-type="application/octet-stream" [960 bytes]
//	< 202 (104ms)  Content-Type: application/json; charset=utf-8
//	{
//	  "link": "http://127.0.0.1:8008/batch_statuses?id=25fc2a7172~"
//	}
//
//	> POST /scabbard/aaaaa-bbbbb/a000/batches   [truncated list]
//	> Host http://127.0.0.1:18085  Authorization: (none)  headers map[Content-Type:application/json]  body 2 bytes = 0a00
//	< 400 after 1ms  Content-Length: 68 | Content-Type: application/json
//	< "{\"code\":\"400\",\"message\":\"Invalid body: not a valid list of batches\"}"
package transcript

import (
	"io"
	"net/http"
	"time"
)

// Entry is one item of a record. Exactly one of Exchange, StatusSeen, Frame and Note is set.
type Entry struct {
	Line     int    // the number of its first line, from 1
	Note     string // a remark, without the "# " or "== " before it
	Exchange *Exchange
	Seen     *StatusSeen
	Frame    *Frame
}

// Exchange is a request and its answer.
type Exchange struct {
	Label   string // the text in brackets after the path, or else the remark right before the exchange
	Request Request
	Answer  Answer
	Failure string // why there was no answer; Answer then has only After
}

// Request is a recorded request. The record of a poll may lack method and target.
type Request struct {
	Method, Target string
	Cut            bool        // true if Target is only the beginning
	Header         http.Header // without Authorization, which has a field of its own
	Authorization  string
	Size           int    // length of the body in bytes; -1 if the record does not say
	Body           string // as much as the record has: JSON, or hex digits
}

// Answer is a recorded or received answer.
type Answer struct {
	Status int // 0 if the record does not say
	After  time.Duration
	Header http.Header
	Body   string
	Cut    bool // true if Body is only the beginning
}

// StatusSeen is a status that an observer of a batch recorded.
type StatusSeen struct {
	After  time.Duration
	ID     string // the beginning of the batch's id
	Status string
}

// Frame is one message on a WebSocket, or the reader's error in place of a message.
type Frame struct {
	At   time.Duration
	Sent bool // true if the client sent it
	Text string
	Cut  bool // true if Text is only the beginning
	End  bool // true if the connection ended; Text says how
}

// Exchanges returns the exchanges among the entries, in order.
func Exchanges(entries []Entry) []*Exchange {
	var out []*Exchange
	for _, e := range entries {
		if e.Exchange != nil {
			out = append(out, e.Exchange)
		}
	}
	return out
}

// Read returns an HTTP response as an Answer. It reads the body to its end and closes it.
func Read(res *http.Response) (Answer, error) {
	body, err := io.ReadAll(res.Body)
	if closing := res.Body.Close(); err == nil {
		err = closing
	}
	return Answer{Status: res.StatusCode, Header: res.Header, Body: string(body)}, err
}
