"""Sends a mail: `call` of `[alert]`, a function in `[hooks]`, or by hand.

    fndctl invoke mail -d '{"subject": "Backup", "text": "Done"}'

The server is in SMTP below; with SMTP_USER it logs in with the password in the file SMTP_PASSWORD_FILE, over TLS.
"""
# /// fnd
# description = "Sends a mail by SMTP"
# on_load = false
# [env]
# SMTP = "127.0.0.1:25"
# MAIL_FROM = "fnd@localhost"
# MAIL_TO = "root@localhost"
# [limits]
# timeout = "60s"
# deadline = "6h"
# [retry]
# retries = 10
# interval = "10s"
# on = ["transient", "timeout"]
# ///
import json
import os
import smtplib
import sys
from email.message import EmailMessage

FAILED = 65  # final: trying again would not help
TRANSIENT = 75  # fnd tries again, with growing gaps


def text_of(payload: dict) -> tuple[str, str]:
    """Returns subject and text for an alert, for the record that a hook brings, or for a plain message."""
    if "alert" in payload:
        about = payload.get("function") or "the node"
        parts = [payload["message"], f"since {payload['since']}", payload.get("output"), payload.get("help")]
        return f"{about}: {payload['alert']}", "\n\n".join(part for part in parts if part)
    if "record" in payload:
        record = payload["record"]
        parts = [record.get("message"), payload.get("output"), f"fndctl history --id {record['id']}"]
        return f"{record['function']}: {record['state']}", "\n\n".join(part for part in parts if part)
    return payload.get("subject", "Message of fnd"), payload["text"]


def main() -> int:
    subject, text = text_of(json.load(sys.stdin))
    mail = EmailMessage()
    # A line end in a header would begin another header.
    mail["Subject"] = " ".join(subject.split())
    mail["From"] = os.environ["MAIL_FROM"]
    mail["To"] = os.environ["MAIL_TO"]
    mail.set_content(text)
    host, _, port = os.environ["SMTP"].rpartition(":")
    try:
        with smtplib.SMTP(host, int(port), timeout=30) as server:
            if "SMTP_USER" in os.environ:
                server.starttls()
                with open(os.environ["SMTP_PASSWORD_FILE"], encoding="utf-8") as file:
                    server.login(os.environ["SMTP_USER"], file.read().strip())
            server.send_message(mail)
    except smtplib.SMTPRecipientsRefused as error:
        print(f"refused: {error.recipients}", file=sys.stderr)
        codes = [code for code, _ in error.recipients.values()]
        return FAILED if all(code >= 500 for code in codes) else TRANSIENT
    except smtplib.SMTPResponseException as error:
        print(f"the server answered {error.smtp_code}: {error.smtp_error!r}", file=sys.stderr)
        return FAILED if error.smtp_code >= 500 else TRANSIENT
    except (OSError, smtplib.SMTPException) as error:
        print(error, file=sys.stderr)
        return TRANSIENT
    print(json.dumps({"sent": mail["To"], "subject": mail["Subject"]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
