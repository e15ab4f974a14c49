package wire

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

const acceptEncoding = "Accept-Encoding"

// AcceptEncoding sets the request's Accept-Encoding to "identity", unless the caller has set it.
// Without this header net/http would ask for a compressed answer.
func AcceptEncoding(h http.Header) {
	if h[acceptEncoding] == nil {
		h[acceptEncoding] = []string{"identity"}
	}
}

// dropUndecodable reports whether Decode can read each encoding that a value of Accept-Encoding
// names.
func dropUndecodable(value string) bool {
	for name := range strings.SplitSeq(value, ",") {
		name, _, _ = strings.Cut(name, ";")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "gzip", "identity":
		default:
			return false
		}
	}
	return true
}

// Decode replaces the body of an answer that is compressed by gzip, whether gzip was asked for or
// not, by the decompressed body. So a limit on the bytes that a caller reads limits the
// decompressed bytes. The body of an answer in any other encoding cannot be read, and its error
// names the encoding.
func Decode(resp *http.Response) {
	switch encoding := strings.ToLower(strings.Join(resp.Header.Values("Content-Encoding"), ", ")); encoding {
	case "", "identity":
		return
	case "gzip", "x-gzip":
		resp.Body = &gzipBody{source: contentReader{source: resp.Body}, body: resp.Body}
	default:
		resp.Body = &unreadableBody{resp.Body, fmt.Errorf("the answer has the encoding %.40q, and this client reads gzip", encoding)}
	}
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	resp.ContentLength, resp.Uncompressed = -1, true
}

// gzipBody reads gzip's header at the first Read, because that may wait for the server.
type gzipBody struct {
	source   contentReader
	unzipper *gzip.Reader
	body     io.Closer
	err      error
}

// Read implements [io.Reader].
func (u *gzipBody) Read(p []byte) (n int, err error) {
	if u.unzipper == nil && u.err == nil {
		if u.unzipper, u.err = gzip.NewReader(&u.source); errors.Is(u.err, io.EOF) && u.source.totalBytes > 0 {
			u.err = io.ErrUnexpectedEOF
		}
	}
	if u.err != nil {
		return 0, u.err
	}
	if n, err = u.unzipper.Read(p); n > 0 {
		u.source.bytesWithoutContent = 0
	}
	return n, err
}

// Close implements [io.Closer].
func (u *gzipBody) Close() error { return u.body.Close() }

// contentReader ends an answer when too many of its bytes have no content. No limit on the content
// would end such an answer.
type contentReader struct {
	source                          io.Reader
	totalBytes, bytesWithoutContent int64
}

const maxWithoutContent = 1 << 20

var errNoContent = errors.New("the compressed answer goes on without content")

// Read implements [io.Reader].
func (f *contentReader) Read(p []byte) (int, error) {
	if f.bytesWithoutContent > maxWithoutContent {
		return 0, errNoContent
	}
	n, err := f.source.Read(p)
	f.totalBytes, f.bytesWithoutContent = f.totalBytes+int64(n), f.bytesWithoutContent+int64(n)
	return n, err
}

type unreadableBody struct {
	io.Closer
	err error
}

// Read implements [io.Reader].
func (u *unreadableBody) Read([]byte) (int, error) { return 0, u.err }
