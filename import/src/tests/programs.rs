//! Files of supervisord.

use super::{D, N, PublishedFile, R, U, W, check};
use crate::supervisord::fuzzing::made;

#[test]
fn programs_of_servers() {
    let files: [PublishedFile; 12] = [
        (
            "[program:shop]\ncommand=/srv/shop/venv/bin/gunicorn shop.wsgi:application --bind 127.0.0.1:8000\ndirectory=/srv/shop\nuser=shop\n\
             autostart=true\nautorestart=true\nstdout_logfile=/var/log/shop.log\nredirect_stderr=true\n",
            1,
            &[
                ("user", D),
                ("autorestart", W),
                ("directory", W),
                ("stdout_logfile", N),
                ("startretries", D),
            ],
        ),
        (
            "[program:worker]\nprocess_name=%(program_name)s_%(process_num)02d\ncommand=php /var/www/artisan queue:work --sleep=3 --tries=3\n\
             autostart=true\nautorestart=true\nuser=forge\nnumprocs=8\nredirect_stderr=true\nstdout_logfile=/var/www/worker.log\nstopwaitsecs=3600\n",
            1,
            &[("numprocs", W), ("process_name", W), ("stopwaitsecs", W)],
        ),
        (
            "[supervisord]\nnodaemon=true\nuser=root\nlogfile=/dev/null\nlogfile_maxbytes=0\npidfile=/run/supervisord.pid\n\n\
             [program:php-fpm]\ncommand=php-fpm8 -F\nstdout_logfile=/dev/stdout\nstdout_logfile_maxbytes=0\nautorestart=false\nstartretries=0\n\n\
             [program:nginx]\ncommand=nginx -g 'daemon off;'\nautorestart=false\nstartretries=0\n",
            2,
            &[("nodaemon", N), ("user", D), ("autorestart", D), ("startretries", D)],
        ),
        (
            "[supervisord]\nnodaemon=true\n\n[program:apache2]\ncommand=/usr/sbin/apache2ctl -D FOREGROUND\npriority=1\nkillasgroup=true\nstopasgroup=true\n",
            1,
            &[
                ("priority", N),
                ("killasgroup", W),
                ("stopasgroup", W),
                ("autorestart", D),
            ],
        ),
        (
            "[program:xvfb]\npriority=100\ncommand=/usr/bin/Xvfb :0 -screen 0 1024x768x24\nuser=root\nautorestart=true\n",
            1,
            &[("user", D)],
        ),
        (
            "[program:celery]\ncommand=celery -A proj worker -l info\ndirectory=/srv/proj\nuser=nobody\nnumprocs=1\nstartsecs=10\nstopwaitsecs=600\n\
             killasgroup=true\npriority=998\n",
            1,
            &[("startsecs", D), ("numprocs", W), ("stopwaitsecs", W)],
        ),
        (
            "[program:tornado]\ncommand=python3 /srv/t/main.py --port=80%(process_num)02d\nprocess_name=%(program_name)s-%(process_num)d\nnumprocs=4\n\
             numprocs_start=1\n",
            4,
            &[("numprocs", W), ("numprocs_start", W)],
        ),
        (
            "[program:node]\ncommand=node index.js\nenvironment=NODE_ENV=\"production\",PORT=\"3000\"\nstopsignal=INT\n",
            1,
            &[("environment", W), ("stopsignal", W)],
        ),
        (
            "[program:ng]\ncommand=/usr/sbin/nginx\nstopsignal=QUIT\n\n[program:db]\ncommand=/usr/bin/mysqld_safe\nstopsignal=KILL\n\n\
             [program:x]\ncommand=/usr/bin/x\nstopsignal=TERM\n",
            3,
            &[("stopsignal", W), ("stopsignal", D)],
        ),
        (
            "[unix_http_server]\nfile=/run/s.sock\nchmod=0700\n\n[rpcinterface:supervisor]\nsupervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface\n\n\
             [supervisorctl]\nserverurl=unix:///run/s.sock\n\n[inet_http_server]\nport=127.0.0.1:9001\n\n[program:cat]\ncommand=/bin/cat\n",
            1,
            &[("user", D)],
        ),
        (
            "[program:a]\ncommand=/opt/a ; the first one\numask=022\n\n[program:b]\ncommand=/opt/b\n\n[group:ab]\nprograms=a,b\npriority=5\n",
            2,
            &[("umask", W)],
        ),
        (
            "[program:dev]\ncommand=/opt/dev\nautostart=false\nexitcodes=0,2\nserverurl=AUTO\nautorestart=unexpected\n",
            1,
            &[("autostart", D), ("exitcodes", D), ("serverurl", N), ("autorestart", D)],
        ),
    ];
    check(&files, made);
}

#[test]
fn other_files() {
    let files: [PublishedFile; 8] = [
        (
            "[supervisord]\nenvironment=LANG=\"C.UTF-8\",HOME=\"/srv/h\"\numask=002\ndirectory=/srv/h\nminfds=65536\nuser=www-data\n\n\
             [program:h]\ncommand=./h --serve\n",
            1,
            &[
                ("environment", W),
                ("umask", W),
                ("directory", W),
                ("minfds", N),
                ("user", D),
            ],
        ),
        ("[program:home]\ncommand=%(ENV_HOME)s/bin/run\n", 0, &[("command", R)]),
        (
            "[program:env]\ncommand=/opt/run\nenvironment=TOKEN=\"%(ENV_TOKEN)s\"\n",
            0,
            &[("environment", R)],
        ),
        (
            "[fcgi-program:app]\ncommand=/usr/bin/app\nsocket=unix:///run/app.sock\nsocket_owner=www-data\n",
            0,
            &[("socket", R), ("socket_owner", R)],
        ),
        (
            "[supervisord]\nnodaemon=true\n\n[include]\nfiles = /etc/supervisor/conf.d/*.conf\n",
            0,
            &[("[program:x]", R)],
        ),
        (
            "[program:log]\ncommand=/opt/log\nstdout_events_enabled=true\nstderr_logfile=NONE\n\n\
             [eventlistener:mail]\ncommand=/opt/mail\nevents=PROCESS_STATE\n",
            1,
            &[("stdout_events_enabled", N), ("stderr_logfile", N)],
        ),
        (
            "[program:odd]\ncommand=/opt/odd\nauto_start=true\nstop_signal=INT\n",
            1,
            &[("auto_start", U), ("stop_signal", U)],
        ),
        ("[program:many]\ncommand=/opt/many\nnumprocs=0\n", 0, &[("numprocs", R)]),
    ];
    check(&files, made);
}
