package splinter_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/splinter"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
)

// The vector of docs/ledgers/splinter.md#services-tokens-and-connections. Its key is not known. It
// has the header and the form of the client's tokens, and its signature covers the same bytes.
const vectorJWT = "eyJhbGciOiJzZWNwMjU2azEiLCJ0eXAiOiJjeWxpbmRlcitqd3QifQ==.eyJpc3MiOiIwMjA5MWEwNmNjNDZjNWUwZDg4ZTg5Mjg0OTM2ZWRiMTY4MDBiMDNiNTZhOGYxYjdlYzI5MmYyMzJiN2M4Mzg1YTIifQ==.tOMakxmebss0WGWcvKCQhYo2AAo3aaMDPS28y9nfVnMXiYq98Be08CdxB0gXCY5qYHZSw53+kjuIG+8gPhXLBA=="

// verifyJWT verifies a token as a node does, and returns the key.
func verifyJWT(t testing.TB, jwt string) (publicKey string, err error) {
	t.Helper()
	parts := strings.Split(jwt, ".")
	require.Len(t, parts, 3)
	claims, err := base64.StdEncoding.DecodeString(parts[1])
	require.NoError(t, err)
	publicKey = strings.TrimSuffix(strings.TrimPrefix(string(claims), `{"iss":"`), `"}`)
	sig, err := base64.StdEncoding.DecodeString(parts[2])
	require.NoError(t, err)
	hex := make([]byte, 0, 128)
	for _, b := range sig {
		const digits = "0123456789abcdef"
		hex = append(hex, digits[b>>4], digits[b&15])
	}
	return publicKey, sawtooth.Verify(publicKey, []byte(parts[0]+"."+parts[1]), string(hex))
}

func TestCylinderToken(t *testing.T) {
	_, err := verifyJWT(t, vectorJWT)
	require.NoError(t, err, "the vector itself")

	token, err := splinter.CylinderToken(testKey(t))(t.Context(), "http://any")
	require.NoError(t, err)
	jwt, found := strings.CutPrefix(token, "Cylinder:")
	require.True(t, found)
	public, err := verifyJWT(t, jwt)
	require.NoError(t, err)
	assert.Equal(t, testKey(t).PublicKey(), public)
	assert.Equal(t, strings.Split(vectorJWT, ".")[0], strings.Split(jwt, ".")[0], "the same header, byte for byte")

	// The vector's claims, signed with this key, differ from the vector only in the signature.
	s := &fixedSigner{PrivateKey: testKey(t), publicKey: "02091a06cc46c5e0d88e89284936edb16800b03b56a8f1b7ec292f232b7c8385a2"}
	_, err = splinter.CylinderToken(s)(t.Context(), "")
	assert.Error(t, err, "a signature of another key is not sent")
	message, _, _ := strings.Cut(vectorJWT[len("eyJhbGciOiJzZWNwMjU2azEiLCJ0eXAiOiJjeWxpbmRlcitqd3QifQ==."):], ".")
	assert.Equal(t, "eyJhbGciOiJzZWNwMjU2azEiLCJ0eXAiOiJjeWxpbmRlcitqd3QifQ=="+"."+message, s.signature)
}

type fixedSigner struct {
	*sawtooth.PrivateKey
	publicKey, signature string
}

func (k *fixedSigner) PublicKey() string { return k.publicKey }

func (k *fixedSigner) Sign(m []byte) (string, error) {
	k.signature = string(m)
	return k.PrivateKey.Sign(m)
}

// After a 401 the next request gets a new token; the refused request fails.
func TestTokenIsRefreshedAfterA401(t *testing.T) {
	var good atomic.Value
	good.Store("OAuth2:first")
	net := splintertest.Start(t, &splintertest.Options{
		Authorize: func(h string, _ splintertest.Operation) bool { return h == "Bearer "+good.Load().(string) },
	})
	var asked atomic.Int32
	c := newClient(t, net.URL(0), &splinter.Options{Token: func(_ context.Context, node string) (string, error) {
		assert.Equal(t, net.URL(0), node)
		asked.Add(1)
		return good.Load().(string), nil
	}})
	b := incBatch(t, net.Service(0), "x")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			_, err := c.BatchStatuses(t.Context(), b.Service, []batch.Attempt{firstAttempt(b)})
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	assert.EqualValues(t, 1, asked.Load(), "one asks for all")

	good.Store("OAuth2:second")
	err := c.Submit(t.Context(), firstAttempt(b))
	require.Equal(t, batch.KindMisconfigured, dlt.Kind(err), "%v", err)
	assert.EqualValues(t, 1, asked.Load(), "a transparent second try")
	assert.Zero(t, net.Posts(b.ID))
	require.NoError(t, c.Submit(t.Context(), firstAttempt(b)))
	assert.EqualValues(t, 2, asked.Load())
}

func TestBiomeToken(t *testing.T) {
	net := splintertest.Start(t, &splintertest.Options{Users: map[string]string{"alice": "hash"}})
	b := incBatch(t, net.Service(0), "x")
	c := newClient(t, net.URL(0), &splinter.Options{Token: splinter.BiomeToken(nil, "alice", "hash")})
	require.NoError(t, c.Submit(t.Context(), firstAttempt(b)))
	net.ExpireTokens()
	assert.Equal(t, batch.KindMisconfigured, dlt.Kind(c.Submit(t.Context(), firstAttempt(incBatch(t, net.Service(0), "x")))))
	require.NoError(t, c.Submit(t.Context(), firstAttempt(incBatch(t, net.Service(0), "x"))), "logged in again")

	wrong := newClient(t, net.URL(0), &splinter.Options{Token: splinter.BiomeToken(nil, "alice", "wrong")})
	assert.Equal(t, batch.KindMisconfigured, dlt.Kind(wrong.Submit(t.Context(), firstAttempt(b))))
	gone := newClient(t, deadURL(t), &splinter.Options{Token: splinter.BiomeToken(nil, "alice", "hash")})
	assert.Equal(t, batch.KindUnavailable, dlt.Kind(gone.Submit(t.Context(), firstAttempt(b))))
}

func TestTokenSourceErrors(t *testing.T) {
	var posts atomic.Int32
	net := splintertest.Start(t, &splintertest.Options{Authorize: func(string, splintertest.Operation) bool { posts.Add(1); return true }})
	b := incBatch(t, net.Service(0), "x")
	for name, row := range map[string]struct {
		source   splinter.TokenSource
		wantKind batch.ErrorKind
	}{
		"later":         {func(context.Context, string) (string, error) { return "", errors.New("the server of tokens is down") }, batch.KindUnavailable},
		"doubt":         {func(context.Context, string) (string, error) { return "", &dlt.Error{Kind: dlt.ErrDoubt} }, batch.KindUnavailable},
		"misconfigured": {func(context.Context, string) (string, error) { return "", dlt.ErrMisconfigured }, batch.KindMisconfigured},
		"empty":         {func(context.Context, string) (string, error) { return "", nil }, batch.KindMisconfigured},
		"no header":     {func(context.Context, string) (string, error) { return "a\r\nb", nil }, batch.KindMisconfigured},
		"empty OAuth2":  {splinter.OAuth2Token(""), batch.KindMisconfigured},
	} {
		t.Run(name, func(t *testing.T) {
			err := newClient(t, net.URL(0), &splinter.Options{Token: row.source}).Submit(t.Context(), firstAttempt(b))
			assert.Equal(t, row.wantKind, dlt.Kind(err), "%v", err)
			assert.Zero(t, posts.Load(), "something was sent without a token")
		})
	}
	t.Run("hangs", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		c := newClient(t, net.URL(0), &splinter.Options{Token: func(ctx context.Context, _ string) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}})
		other := make(chan error, 1)
		go func() { other <- c.Submit(ctx, firstAttempt(b)) }()
		assert.Equal(t, batch.KindUnavailable, dlt.Kind(c.Submit(ctx, firstAttempt(b))))
		assert.Equal(t, batch.KindUnavailable, dlt.Kind(<-other))
	})
}

// A token never shows in an error, whatever an answer echoes.
func TestTokensNeverShow(t *testing.T) {
	const secret = "s3cr3t-t0ken"
	echo := startNodeThatAnswers(t, 500, jsonType, `{"code":"500","message":"got Bearer OAuth2:`+secret+` and key-`+secret+`"}`)
	for name, o := range map[string]*splinter.Options{
		"token":  {Token: splinter.OAuth2Token(secret)},
		"header": {Header: http.Header{"Authorization": {"Basic " + secret}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, echo.URL, o)
			b := incBatch(t, service, "x")
			err := c.Submit(t.Context(), firstAttempt(b))
			require.Error(t, err)
			assert.NotContains(t, err.Error(), secret)
			assert.Contains(t, err.Error(), "[redacted]")
			_, err = c.BatchStatuses(t.Context(), service, []batch.Attempt{firstAttempt(b)})
			assert.NotContains(t, err.Error(), secret)
		})
	}
	t.Run("refused", func(t *testing.T) {
		no := startNodeThatAnswers(t, 401, jsonType, `{"code":"401","message":"bad OAuth2:`+secret+`"}`)
		err := newClient(t, no.URL, &splinter.Options{Token: splinter.OAuth2Token(secret)}).Submit(t.Context(), firstAttempt(incBatch(t, service, "x")))
		assert.NotContains(t, err.Error(), secret)
	})
	_, err := splinter.New("http://user:"+secret+"@localhost", nil)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), secret)
}
