package debian

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Check(m)) }

// One file comes out of an archive, whole. An archive without it, or one that is cut off, is an error.
func TestFind(t *testing.T) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeDir, Name: "./usr/bin/"},
		{Typeflag: tar.TypeSymlink, Name: "./usr/bin/program", Linkname: "other"},
		{Typeflag: tar.TypeReg, Name: "./usr/bin/other", Size: 5},
		{Typeflag: tar.TypeReg, Name: "./usr/bin/program", Size: 7},
	} {
		require.NoError(t, w.WriteHeader(&h))
		_, err := w.Write([]byte("content")[:h.Size])
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	whole := archive.Bytes()

	var got bytes.Buffer
	require.NoError(t, find(bytes.NewReader(whole), "usr/bin/program", &got))
	require.Equal(t, "content", got.String())
	require.ErrorIs(t, find(bytes.NewReader(whole), "usr/bin/none", io.Discard), os.ErrNotExist)
	require.ErrorIs(t, find(bytes.NewReader(nil), "usr/bin/program", io.Discard), os.ErrNotExist)
	require.Error(t, find(bytes.NewReader(whole[:4*512+3]), "usr/bin/program", io.Discard))
}
