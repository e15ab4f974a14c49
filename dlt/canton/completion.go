package canton

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// element is one element of a list or stream of completions
// (docs/ledgers/canton.md#completions).
type element struct {
	offset     int64 // 0 if the element has none
	completion *completion
	failure    *participantError // failure of a stream; the stream's last element
}

// completion is the outcome of one submission.
type completion struct {
	CommandID    string   `json:"commandId"`
	SubmissionID string   `json:"submissionId"`
	UserID       string   `json:"userId"`
	ActAs        []string `json:"actAs"`
	UpdateID     string   `json:"updateId"`
	Offset       *int64   `json:"offset"`
	Status       *struct {
		Code    int      `json:"code"`
		Message string   `json:"message"`
		Details []detail `json:"details"`
	} `json:"status"`
}

// detail is a protobuf Any. Only the JSON of 3.4 and later has it decoded.
type detail struct {
	TypeURL string          `json:"typeUrl"`
	Value   string          `json:"value"`
	Decoded json.RawMessage `json:"valueDecoded"`
}

const errorInfoURL = "type.googleapis.com/google.rpc.ErrorInfo"

// parseElement reads one element, or the error object that ends a stream. An unknown kind of
// element is an error.
func parseElement(b []byte) (element, error) {
	if f, is := parseFailure(b); is {
		return element{failure: &f}, nil
	}
	var doc struct {
		Response map[string]struct {
			Value json.RawMessage `json:"value"`
		} `json:"completionResponse"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return element{}, fmt.Errorf("a completion cannot be read: %w", err)
	}
	if len(doc.Response) != 1 {
		return element{}, errors.New("a completion of no kind")
	}
	for kind, body := range doc.Response {
		switch kind {
		case "Empty":
			return element{}, nil
		case "OffsetCheckpoint":
			var checkpoint struct {
				Offset *int64 `json:"offset"`
			}
			if err := json.Unmarshal(body.Value, &checkpoint); err != nil || checkpoint.Offset == nil || *checkpoint.Offset < 0 {
				return element{}, errors.New("a checkpoint without an offset")
			}
			return element{offset: *checkpoint.Offset}, nil
		case "Completion":
			var c completion
			if err := json.Unmarshal(body.Value, &c); err != nil {
				return element{}, fmt.Errorf("a completion cannot be read: %w", err)
			}
			if c.Offset == nil || *c.Offset <= 0 || c.Status == nil || c.CommandID == "" {
				return element{}, errors.New("a completion without command id, offset or status")
			}
			return element{offset: *c.Offset, completion: &c}, nil
		default:
			return element{}, fmt.Errorf("a completion of an unknown kind %q", batch.Excerpt(kind, 64))
		}
	}
	return element{}, nil
}

// decodeElements reads a list as it comes, and calls each with each element, which has at most
// most bytes. It goes on after an unusable element, and returns the number of elements.
func decodeElements(r io.Reader, most int64, each func(element)) (n int, err error) {
	list := wire.NewStream(r, most)
	var first error
	odd, err := list.List(func() error {
		var raw json.RawMessage
		if _, err := list.Value(&raw); err != nil {
			return err
		}
		n++
		e, err := parseElement(raw)
		if err == nil && e.failure != nil {
			err = fmt.Errorf("the list ends with %s", batch.Excerpt(e.failure.shownText(), maxText))
		}
		if err != nil {
			first = cmp.Or(first, err)
			return nil
		}
		each(e)
		return nil
	})
	return n, errors.Join(err, odd, first)
}

// messagePattern is Canton's own expression for splitting a rejection's message. Canton does not
// promise this form, so it is used only if there are no details.
var messagePattern = regexp.MustCompile(`(?s)^([A-Z_]+)\((\d+),(.+?)\): (.*)$`)

// failure returns the failure of a completion whose status is not 0.
func (c *completion) failure() participantError {
	f := participantError{grpcCode: c.Status.Code, message: c.Status.Message}
	if m := messagePattern.FindStringSubmatch(c.Status.Message); m != nil {
		f.id, f.message = m[1], m[4]
		f.category, _ = strconv.Atoi(m[2]) // 0 if the message has no number
	}
	for _, d := range c.Status.Details {
		if d.TypeURL != errorInfoURL {
			continue
		}
		info, ok := d.errorInfo()
		if !ok || info.Reason == "" {
			continue
		}
		f.id, f.context = info.Reason, info.Metadata
		f.category, _ = strconv.Atoi(info.Metadata["category"])
	}
	return f
}

// errorInfo is google.rpc.ErrorInfo, the machine-readable form of an error.
type errorInfo struct {
	Reason, Domain string
	Metadata       map[string]string
}

// errorInfo reads the bytes, or their decoded form if there are none.
func (d detail) errorInfo() (errorInfo, bool) {
	if b, err := base64.StdEncoding.DecodeString(d.Value); err == nil && len(b) > 0 {
		if info, err := parseErrorInfo(b); err == nil {
			return info, true
		}
	}
	var doc struct {
		Reason   string         `json:"reason"`
		Domain   string         `json:"domain"`
		Metadata map[string]any `json:"metadata"`
	}
	if len(d.Decoded) == 0 || json.Unmarshal(d.Decoded, &doc) != nil {
		return errorInfo{}, false
	}
	info := errorInfo{Reason: doc.Reason, Domain: doc.Domain, Metadata: make(map[string]string, len(doc.Metadata))}
	for k, v := range doc.Metadata {
		info.Metadata[k] = fmt.Sprint(v)
	}
	return info, true
}

// parseErrorInfo reads the protobuf message, which has the fields 1 reason, 2 domain, and 3
// metadata, a map.
func parseErrorInfo(b []byte) (errorInfo, error) {
	info := errorInfo{Metadata: map[string]string{}}
	err := eachField(b, func(n protowire.Number, v []byte) error {
		switch n {
		case 1:
			info.Reason = string(v)
		case 2:
			info.Domain = string(v)
		case 3:
			var key, value string
			if err := eachField(v, func(n protowire.Number, v []byte) error {
				switch n {
				case 1:
					key = string(v)
				case 2:
					value = string(v)
				}
				return nil
			}); err != nil {
				return err
			}
			info.Metadata[key] = value
		}
		return nil
	})
	return info, err
}

// eachField calls f with each field of bytes in a message.
func eachField(b []byte, f func(protowire.Number, []byte) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
				return protowire.ParseError(n)
			}
			b = b[n:]
			continue
		}
		v, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := f(number, v); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// isOf reports whether the completion is about a command of this user and party: the same id of
// another user or party is another change (docs/ledgers/canton.md#deduplication).
func (c *completion) isOf(user, party string) bool {
	if user != "" && c.UserID != "" && c.UserID != user {
		return false
	}
	for _, p := range c.ActAs { // a set of one party, perhaps repeated
		if p != party {
			return false
		}
	}
	return true
}

// completionVerdict is the meaning of a completion.
type completionVerdict struct {
	attempt     int            // 0 if the attempt is not this client's
	reported    batch.Reported // 0 if only an operator can find the outcome
	hasNoEffect bool           // true if the attempt certainly had no effect
	message     string
}

func (c *completion) verdict() completionVerdict {
	v := completionVerdict{attempt: attemptOf(c.CommandID, c.SubmissionID)}
	if c.Status.Code == 0 {
		v.reported = batch.ReportedCommitted
		return v
	}
	f := c.failure()
	v.message = batch.Excerpt(f.shownText(), maxText)
	if c.Status.Code < 0 || c.Status.Code > 16 {
		v.message = "an unknown status code " + strconv.Itoa(c.Status.Code)
		return v
	}
	v.reported = f.reportedState()
	switch f.meaning() {
	case meansDuplicate:
		v.attempt = 0 // the completion is about an earlier attempt than the refused one
	case meansTransient, meansNotYet, meansRefused, meansMisconfigured:
		v.hasNoEffect = !f.isIndefinite()
	}
	return v
}
