//! Crontabs.

use super::{D, PublishedFile, R, W, check};
use crate::crontab::fuzzing::made;

#[test]
fn crontabs_of_a_user() {
    let files: [PublishedFile; 18] = [
        (
            "MAILTO=\"\"\n*/5 * * * * /home/ann/bin/at_work > /dev/null\n",
            1,
            &[("MAILTO", W), ("schedule", W), ("command", D), ("PATH", D), ("user", D)],
        ),
        (
            "0 2 * * * /opt/scripts/save.sh >> /var/log/save.log 2>&1\n",
            1,
            &[("MAILTO", D), ("command", D)],
        ),
        ("@reboot cd /home/ann/bot && make run\n", 1, &[("@reboot", W)]),
        (
            "@reboot /bin/bash /home/ann/start.sh > /home/ann/start.log 2>&1\n",
            1,
            &[("@reboot", W)],
        ),
        (
            "@reboot ~/dir/venv/bin/python ~/dir/server.py >> ~/log.log 2>&1\n",
            1,
            &[("@reboot", W), ("command", D)],
        ),
        (
            "@reboot sleep 30 && cd /opt/say && /opt/say/run.sh\n",
            1,
            &[("@reboot", W)],
        ),
        ("@reboot sudo /usr/local/bin/pad_init.sh\n", 1, &[("command", D)]),
        (
            "# Nightly\n0 0 * * * /usr/bin/npm rebuild dl --prefix /srv/tube/\n",
            1,
            &[("schedule", W)],
        ),
        (
            "0 0 * * * /usr/bin/curator --config /data/c/curator.yml /data/c/action.yml\n",
            1,
            &[("schedule", W)],
        ),
        (
            "30 0 * * * /usr/bin/php /home/ann/core/artisan seed --env=production > /var/log/m/seed.log\n",
            1,
            &[("command", D)],
        ),
        (
            "0 10 * * * /usr/bin/php /var/www/html/quotes.php\n",
            1,
            &[("schedule", W)],
        ),
        (
            "0 3 * * * certbot renew --quiet && systemctl reload nginx\n",
            1,
            &[("command", D)],
        ),
        (
            "* * * * * cd /var/www/shop && php artisan schedule:run >> /dev/null 2>&1\n",
            1,
            &[("schedule", W)],
        ),
        (
            "SHELL=/bin/bash\nMAILTO=\"\"\nPATH=/home/u/conda/bin:/usr/bin\n0 1 * * * /user/local/run.sh\n",
            1,
            &[("SHELL", W), ("PATH", W), ("MAILTO", W)],
        ),
        // cron has no comments behind a value, so this is the name of the shell.
        ("SHELL=/bin/bash  # which shell\n0 1 * * * x\n", 1, &[("SHELL", R)]),
        // A line for /etc/crontab.
        ("0 1 * * * root /usr/local/run.sh\n", 0, &[("user", R)]),
        (
            "SHELL=/bin/sh\nPATH=/usr/bin:/bin\n\n*/5 * * * * /usr/local/bin/save.sh --quiet\n\
             0 3 * * 1 /usr/bin/logrotate   /etc/logrotate.conf\n@reboot /opt/app/start.sh\n99 * * * * /bin/broken\n",
            3,
            &[("line", R), ("@reboot", W), ("schedule", W)],
        ),
        (
            "*/1 * * * * /usr/bin/python3 /home/ann/t.py>>/home/ann/t.txt\n",
            1,
            &[("schedule", W), ("command", D)],
        ),
    ];
    check(&files, |text| made(text, false));
}

#[test]
fn crontabs_with_users() {
    let files: [PublishedFile; 10] = [
        (
            "17 *\t* * *\troot    cd / && run-parts --report /etc/cron.hourly\n\
             25 6\t* * *\troot\ttest -x /usr/sbin/anacron || run-parts --report /etc/cron.daily\n",
            2,
            &[("user", D), ("schedule", W)],
        ),
        (
            "# The link\nSHELL=/bin/bash\nPATH=/usr/bin:/usr/local/bin\nMAILTO=\"\"\n\
             */5 7-17 * * * root /usr/local/bin/link.sh >/dev/null 2>&1\n*/2 18-23,0-6 * * * root /usr/local/bin/link.sh >/dev/null 2>&1\n",
            2,
            &[("user", D), ("schedule", W)],
        ),
        ("0 */6 * * * root /opt/clean.sh >/dev/null 2>&1\n", 1, &[("user", D)]),
        ("0 */4 * * * root service php restart\n", 1, &[("command", D)]),
        ("0 8 * * * root /usr/local/bin/check-ssl.sh\n", 1, &[("user", D)]),
        (
            "15 02 * * * root /path/acme.sh --cron --home /etc/tls/rsa\n20 02 * * * root /path/acme.sh --cron --ecc\n",
            2,
            &[("schedule", W)],
        ),
        // cron fills in no variables.
        (
            "HOST_DB=${HOST_DB}\nPORT_DB=5432\n*/5 * * * * root cd /app && PYTHONPATH=/app /usr/local/bin/python -m app.close >> /var/log/app/r.log 2>&1\n",
            1,
            &[("HOST_DB", W), ("PORT_DB", W)],
        ),
        ("* * * * * root /usr/bin/ddns &> /tmp/ddns.log\n", 1, &[("schedule", W)]),
        (
            "0 2 * * * www-data /usr/local/bin/pulse.sh >> /var/log/pulse.log 2>&1\n",
            1,
            &[("user", D)],
        ),
        // A line of a user's crontab.
        ("* * * * * /opt/no-user.sh x\n", 0, &[("line", R)]),
    ];
    check(&files, |text| made(text, true));
}
