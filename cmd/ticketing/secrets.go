package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"ticketing/auth"
)

// maxSecretFile is the most that is read of a secret file: room for hundreds
// of secrets, and a limit for a path that names something else.
const maxSecretFile = 64 << 10

// secretSource is where secrets come from: a file, a value, or nowhere. Its
// errors never hold a secret.
type secretSource struct {
	value, file text
}

func (c *serveCmd) secretSource() *secretSource {
	return &secretSource{value: c.AuthSecret, file: c.AuthSecretFile}
}

// load returns the secrets there are now, or nil without an error when none are
// asked for. A setting that is given and holds no secret is an error: it never
// means that everybody may come in.
func (s *secretSource) load() (*auth.Secrets, error) {
	switch {
	case s.value.given && s.file.given:
		return nil, fmt.Errorf("%s and %s are both given: allowed is one of them", secretSetting, secretFileSetting)
	case s.value.given:
		return s.fromValue()
	case s.file.given:
		return s.fromFile()
	}
	return nil, nil
}

func (s *secretSource) fromValue() (*auth.Secrets, error) {
	switch {
	case s.value.value == "":
		return nil, &settingError{setting: secretSetting, problem: "is empty: allowed is a secret, or leave it unset"}
	case strings.ContainsAny(s.value.value, "\r\n"):
		return nil, &settingError{setting: secretSetting, problem: "has a line end in it: allowed is one secret; for several, use AUTH_SECRET_FILE"}
	}
	return auth.NewSecrets([]byte(s.value.value))
}

func (s *secretSource) fromFile() (*auth.Secrets, error) {
	secrets, err := readSecrets(s.file.value)
	if err != nil {
		return nil, &settingError{secretFileSetting, fmt.Sprintf("%q", s.file.value), err.Error() + "; allowed is a file of secrets, one a line"}
	}
	return secrets, nil
}

// readSecrets reads a secret file. It never waits: a pipe without a writer must
// not hold up a node that is told to read its secrets again.
func readSecrets(path string) (*auth.Secrets, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		var cause *os.PathError
		if errors.As(err, &cause) {
			err = cause.Err // the path is named already
		}
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxSecretFile {
		return nil, fmt.Errorf("larger than %d bytes", maxSecretFile)
	}
	return auth.ParseSecrets(data)
}
