package loop

import (
	"fmt"
	"log/slog"
)

// gnetLogger takes what gnet says into our log. Its "errors" are events of
// single connections, so they are warnings to an operator.
type gnetLogger struct{ log *slog.Logger }

func (g gnetLogger) Debugf(format string, args ...any) {
	g.log.Debug("gnet: " + fmt.Sprintf(format, args...))
}
func (g gnetLogger) Infof(format string, args ...any) {
	g.log.Debug("gnet: " + fmt.Sprintf(format, args...))
}
func (g gnetLogger) Warnf(format string, args ...any) {
	g.log.Debug("gnet: " + fmt.Sprintf(format, args...))
}
func (g gnetLogger) Errorf(format string, args ...any) {
	g.log.Warn("gnet: " + fmt.Sprintf(format, args...))
}

// Fatalf does not end the process: nothing of gnet's is worth everybody's locks.
func (g gnetLogger) Fatalf(format string, args ...any) {
	g.log.Error("gnet: " + fmt.Sprintf(format, args...))
}
