package main

import (
	"context"
	"fmt"
)

// checked ends serve --check, when all that Run looks at before it binds a port
// is as it should be. An address is looked up and not bound: most often the
// node that uses it runs already.
func (c *serveCmd) checked(ctx context.Context, p *process) error {
	if c.AdminAddr != "" {
		if _, err := resolve(ctx, adminSetting, string(c.AdminAddr)); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(p.stdout, "ok: settings, files and limits are as they should be"); err != nil {
		return environmentFailed(err)
	}
	return nil
}
