create sparse
write sparse 0+100 #1
write sparse 1638400+300 #2
write sparse 5120000+50 #3
write sparse 10240000+700 #4
create tall
write tall 0+900 #5
write tall 209715200+40 #6
sync
layout-checkpoint
truncate tall 1000000
create reserved
reserve reserved 0+600000
write reserved 40960+200 #7
create attributes
setxattr attributes one 900 #8
setxattr attributes two 40 #9
symlink short 40
symlink long 1500
fifo queue
mkdir names
create names/n0^1
create names/n1^2
create names/n2^3
create names/n3^4
create names/n4^5
create names/n5^6
create names/n6^7
create names/n7^8
create names/n8^9
create names/n9^10
create names/n10^11
create names/n11^12
create names/n12^13
create names/n13^14
create names/n14^15
create names/n15^16
create names/n16^17
create names/n17^18
create names/n18^19
create names/n19^20
create names/n20^21
create names/n21^22
create names/n22^23
create names/n23^24
create names/n24^25
create names/n25^26
create names/n26^27
create names/n27^28
create names/n28^29
create names/n29^30
create names/n30^31
create names/n31^32
create names/n32^33
create names/n33^34
create names/n34^35
create names/n35^36
create names/n36^37
create names/n37^38
create names/n38^39
create names/n39^40
create names/n40^1
create names/n41^2
create names/n42^3
create names/n43^4
create names/n44^5
create names/n45^6
create names/n46^7
create names/n47^8
create names/n48^9
create names/n49^10
create names/n50^11
create names/n51^12
create names/n52^13
create names/n53^14
create names/n54^15
create names/n55^16
create names/n56^17
create names/n57^18
create names/n58^19
create names/n59^20
create names/n60^21
create names/n61^22
create names/n62^23
create names/n63^24
create names/n64^25
create names/n65^26
create names/n66^27
create names/n67^28
create names/n68^29
create names/n69^30
create names/n70^31
create names/n71^32
create names/n72^33
create names/n73^34
create names/n74^35
create names/n75^36
create names/n76^37
create names/n77^38
create names/n78^39
create names/n79^40
create names/n80^1
create names/n81^2
create names/n82^3
create names/n83^4
create names/n84^5
create names/n85^6
create names/n86^7
create names/n87^8
create names/n88^9
create names/n89^10
create names/n90^11
create names/n91^12
create names/n92^13
create names/n93^14
create names/n94^15
create names/n95^16
create names/n96^17
create names/n97^18
create names/n98^19
create names/n99^20
create names/n100^21
create names/n101^22
create names/n102^23
create names/n103^24
create names/n104^25
create names/n105^26
create names/n106^27
create names/n107^28
create names/n108^29
create names/n109^30
create names/n110^31
create names/n111^32
create names/n112^33
create names/n113^34
create names/n114^35
create names/n115^36
create names/n116^37
create names/n117^38
create names/n118^39
create names/n119^40
create names/n120^1
create names/n121^2
create names/n122^3
create names/n123^4
create names/n124^5
create names/n125^6
create names/n126^7
create names/n127^8
create names/n128^9
create names/n129^10
create names/n130^11
create names/n131^12
create names/n132^13
create names/n133^14
create names/n134^15
create names/n135^16
create names/n136^17
create names/n137^18
create names/n138^19
create names/n139^20
create names/n140^21
create names/n141^22
create names/n142^23
create names/n143^24
create names/n144^25
create names/n145^26
create names/n146^27
create names/n147^28
create names/n148^29
create names/n149^30
create names/n150^31
create names/n151^32
create names/n152^33
create names/n153^34
create names/n154^35
create names/n155^36
create names/n156^37
create names/n157^38
create names/n158^39
create names/n159^40
create names/n160^1
create names/n161^2
create names/n162^3
create names/n163^4
create names/n164^5
create names/n165^6
create names/n166^7
create names/n167^8
create names/n168^9
create names/n169^10
create names/n170^11
create names/n171^12
create names/n172^13
create names/n173^14
create names/n174^15
create names/n175^16
create names/n176^17
create names/n177^18
create names/n178^19
create names/n179^20
create names/n180^21
create names/n181^22
create names/n182^23
create names/n183^24
create names/n184^25
create names/n185^26
create names/n186^27
create names/n187^28
create names/n188^29
create names/n189^30
create names/n190^31
create names/n191^32
create names/n192^33
create names/n193^34
create names/n194^35
create names/n195^36
create names/n196^37
create names/n197^38
create names/n198^39
create names/n199^40
create names/n200^1
create names/n201^2
create names/n202^3
create names/n203^4
create names/n204^5
create names/n205^6
create names/n206^7
create names/n207^8
create names/n208^9
create names/n209^10
create names/n210^11
create names/n211^12
create names/n212^13
create names/n213^14
create names/n214^15
create names/n215^16
create names/n216^17
create names/n217^18
create names/n218^19
create names/n219^20
create names/n220^21
create names/n221^22
create names/n222^23
create names/n223^24
create names/n224^25
create names/n225^26
create names/n226^27
create names/n227^28
create names/n228^29
create names/n229^30
create names/n230^31
create names/n231^32
create names/n232^33
create names/n233^34
create names/n234^35
create names/n235^36
create names/n236^37
create names/n237^38
create names/n238^39
create names/n239^40
create names/n240^1
create names/n241^2
create names/n242^3
create names/n243^4
create names/n244^5
create names/n245^6
create names/n246^7
create names/n247^8
create names/n248^9
create names/n249^10
create names/n250^11
create names/n251^12
create names/n252^13
create names/n253^14
create names/n254^15
create names/n255^16
create names/n256^17
create names/n257^18
create names/n258^19
create names/n259^20
create names/n260^21
create names/n261^22
create names/n262^23
create names/n263^24
create names/n264^25
create names/n265^26
create names/n266^27
create names/n267^28
create names/n268^29
create names/n269^30
create names/n270^31
create names/n271^32
create names/n272^33
create names/n273^34
create names/n274^35
create names/n275^36
create names/n276^37
create names/n277^38
create names/n278^39
create names/n279^40
create names/n280^1
create names/n281^2
create names/n282^3
create names/n283^4
create names/n284^5
create names/n285^6
create names/n286^7
create names/n287^8
create names/n288^9
create names/n289^10
create names/n290^11
create names/n291^12
create names/n292^13
create names/n293^14
create names/n294^15
create names/n295^16
create names/n296^17
create names/n297^18
create names/n298^19
create names/n299^20
link names/n0^1 l0
unlink names/n3^4
write names/n6^7 0+140 #6
link names/n9^10 l9
unlink names/n12^13
write names/n15^16 0+320 #15
link names/n18^19 l18
unlink names/n21^22
write names/n24^25 0+500 #24
link names/n27^28 l27
unlink names/n30^31
write names/n33^34 0+680 #33
link names/n36^37 l36
unlink names/n39^40
write names/n42^3 0+60 #42
link names/n45^6 l45
unlink names/n48^9
write names/n51^12 0+240 #51
link names/n54^15 l54
unlink names/n57^18
write names/n60^21 0+420 #60
link names/n63^24 l63
unlink names/n66^27
write names/n69^30 0+600 #69
link names/n72^33 l72
unlink names/n75^36
write names/n78^39 0+780 #78
link names/n81^2 l81
unlink names/n84^5
write names/n87^8 0+160 #87
link names/n90^11 l90
unlink names/n93^14
write names/n96^17 0+340 #96
link names/n99^20 l99
unlink names/n102^23
write names/n105^26 0+520 #105
link names/n108^29 l108
unlink names/n111^32
write names/n114^35 0+700 #114
link names/n117^38 l117
unlink names/n120^1
write names/n123^4 0+80 #123
link names/n126^7 l126
unlink names/n129^10
write names/n132^13 0+260 #132
link names/n135^16 l135
unlink names/n138^19
write names/n141^22 0+440 #141
link names/n144^25 l144
unlink names/n147^28
write names/n150^31 0+620 #150
link names/n153^34 l153
unlink names/n156^37
write names/n159^40 0+800 #159
link names/n162^3 l162
unlink names/n165^6
write names/n168^9 0+180 #168
link names/n171^12 l171
unlink names/n174^15
write names/n177^18 0+360 #177
link names/n180^21 l180
unlink names/n183^24
write names/n186^27 0+540 #186
link names/n189^30 l189
unlink names/n192^33
write names/n195^36 0+720 #195
link names/n198^39 l198
unlink names/n201^2
write names/n204^5 0+100 #204
link names/n207^8 l207
unlink names/n210^11
write names/n213^14 0+280 #213
link names/n216^17 l216
unlink names/n219^20
write names/n222^23 0+460 #222
link names/n225^26 l225
unlink names/n228^29
write names/n231^32 0+640 #231
link names/n234^35 l234
unlink names/n237^38
write names/n240^1 0+20 #240
link names/n243^4 l243
unlink names/n246^7
write names/n249^10 0+200 #249
link names/n252^13 l252
unlink names/n255^16
write names/n258^19 0+380 #258
link names/n261^22 l261
unlink names/n264^25
write names/n267^28 0+560 #267
link names/n270^31 l270
unlink names/n273^34
write names/n276^37 0+740 #276
link names/n279^40 l279
unlink names/n282^3
write names/n285^6 0+120 #285
link names/n288^9 l288
unlink names/n291^12
write names/n294^15 0+300 #294
link names/n297^18 l297
chmod sparse 600
chown tall 7 8
sync
clean
layout-checkpoint
layout-checkpoint
drop-caches
write-back
maintain
layout-checkpoint
drop-caches
write-back
clean
fsync /
clean
clean
fsync /
create a
punch a 0+1874
write-back
write-back
write-back
write-back
truncate a 21698
write a 8444+8748 #1051
drop-caches
truncate a 31519
sync
layout-checkpoint
layout-checkpoint
write a 5870+4096 #1063
layout-checkpoint
open a @2
clean
setxattr a q 115 #1065
copy a 22083+13688 a 8192
sync
truncate a 22860
layout-checkpoint
write @2 30459+93 #1068
write-back
truncate a 4096
close @2
sync
write a 24576+7920 #1071
write-back
clean
unlink a
drop-caches
fsync /
sync
write-back
create b
maintain
maintain
write-back
mkdir x^255
maintain
maintain
write-back
read b 59+99
fsync /
exchange x^255 b
mkdir b/x^255
write x^255 5814+12807 #1089
maintain
write-back
drop-caches
maintain
write-back
write-back
drop-caches
layout-checkpoint
layout-checkpoint
fsync x^255
rename-whiteout b/x^255 b/a
write x^255 94+4096 #1108
read x^255 6681+4096
checkpoint
open l0 @1
unlink names/n0^1
unlink l0
create orphan
write orphan 0+9000 #71
open orphan @2
unlink orphan
mkdir late
create late/file
write late/file 500000+100 #72
punch sparse 1638400+4096
truncate reserved 300000
rename late/file late/renamed
sync
kill
